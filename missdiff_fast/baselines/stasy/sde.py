"""The variance-exploding SDE: its kernel, its probability-flow sampler and its likelihood (Song et al., 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast.baselines.stasy.ode import solve

START = 1e-5  # the least time; at 0 nothing is left to predict

Score = Callable[[Tensor, Tensor], Tensor]  # of rows [B, D] and their noise level [B, 1]


@dataclass(frozen=True)
class VESDE:
    """Rows to which noise of growing scale is added as t goes from 0 to 1: ``x_t = x_0 + sigma(t) z``.

    Parameters
    ----------
    sigma_min, sigma_max : float
        The noise level at t = 0 and at t = 1; in between it grows geometrically.

    Examples
    --------
    >>> round(VESDE().sigma(0.5), 6)
    0.316228
    """

    sigma_min: float = 0.01
    sigma_max: float = 10.0

    def sigma(self, t: float) -> float:
        """The noise level at a time."""
        return self.sigma_min * (self.sigma_max / self.sigma_min) ** t

    def sigmas(self, t: Tensor) -> Tensor:
        """The noise levels at times of any shape."""
        return self.sigma_min * (self.sigma_max / self.sigma_min) ** t

    def diffusion_squared(self, t: float) -> float:
        """g(t)^2, which is the time derivative of sigma(t)^2."""
        return 2 * math.log(self.sigma_max / self.sigma_min) * self.sigma(t) ** 2

    def losses(self, score: Score, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """Denoising score matching of each row: mean over columns of ``(sigma score + z)^2``, ``[B]``.

        Parameters
        ----------
        score : callable
            The network.
        x, noise : Tensor
            Rows and standard normal noise, ``[B, D]`` each.
        t : Tensor
            Times in (0, 1], ``[B, 1]``.
        """
        sigma = self.sigmas(t)
        return (sigma * score(x + sigma * noise, sigma) + noise).square().mean(1)

    def flow(self, score: Score, t: float, x: Tensor) -> Tensor:
        """The field of the probability flow, ``-g(t)^2 score / 2``, float64 ``[B, D]``."""
        sigma = torch.full((len(x), 1), self.sigma(t), device=x.device)
        return -0.5 * self.diffusion_squared(t) * score(x.float(), sigma).double()

    @torch.no_grad()
    def sample(self, score: Score, noise: Tensor, *, tolerance: float = 1e-5) -> Tensor:
        """Rows that standard normal noise ``[B, D]`` flows to, denoised once at the end: float32 ``[B, D]``."""
        x = solve(
            lambda t, x: self.flow(score, t, x),
            self.sigma_max * noise.double(),
            1.0,
            START,
            rtol=tolerance,
            atol=tolerance,
        ).float()
        sigma = torch.full((len(x), 1), self.sigma(START), device=x.device)
        return x + sigma**2 * score(x, sigma)

    def log_likelihood(self, score: Score, x: Tensor, probes: Tensor, *, tolerance: float = 1e-3) -> Tensor:
        """Log-density of rows by the change of variables along the probability flow, in nats: float64 ``[B]``.

        The divergence is Hutchinson's estimate, unbiased whatever the number of probes.

        Parameters
        ----------
        score : callable
            Differentiable in the rows.
        x : Tensor
            ``[B, D]``.
        probes : Tensor
            Random signs, ``[P, B, D]``; they stay the same along the flow.
        tolerance : float
            Relative and absolute, of the solver.
        """
        B, D = x.shape
        state = torch.cat([x.double(), torch.zeros((B, 1), dtype=torch.float64, device=x.device)], 1)

        def field(t: float, state: Tensor) -> Tensor:
            with torch.enable_grad():
                rows = state[:, :D].float().requires_grad_()
                flow = self.flow(score, t, rows)
                divergence = torch.zeros(B, dtype=torch.float64, device=x.device)
                for probe in probes:
                    (product,) = torch.autograd.grad(flow, rows, probe.to(flow.dtype), retain_graph=True)
                    divergence += (product * probe).sum(1).double() / len(probes)
            return torch.cat([flow.detach(), divergence[:, None]], 1)

        end = solve(field, state, START, 1.0, rtol=tolerance, atol=tolerance)
        latent, gained = end[:, :D], end[:, D]
        prior = -0.5 * (latent / self.sigma_max).square().sum(1) - D * math.log(self.sigma_max * math.sqrt(2 * math.pi))
        return prior + gained


def random_signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Rademacher variables: float32, -1 or 1 with equal probability."""
    return 2.0 * torch.randint(2, shape, generator=generator, device=generator.device).float() - 1.0
