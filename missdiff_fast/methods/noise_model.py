"""The paper's network, with the encoding and the noising process that it is trained for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Tile
from missdiff_fast.config import DiffusionConfig, PaperConfig
from missdiff_fast.diffusion.process import Process, variance_exploding, variance_preserving
from missdiff_fast.networks import CSDINetwork
from missdiff_fast.table.min_max import MinMax

# The network is always called with the same number of rows; `missdiff_fast._engine.tiling.TILE` gives the reason. Each
# encoded column is a token, and this many tokens keep the device busy.
TOKENS = {"cpu": 1 << 15, "cuda": 1 << 18}
_MAX_ROWS = 1 << 15  # of one call: attention kernels refuse batches of 2^16 rows


class NoiseModel:
    """Predicts the noise of encoded rows.

    Parameters
    ----------
    config : PaperConfig
        Settings.
    min_max : MinMax
        The encoding of the training table.
    device : torch.device
        Where the network computes. Its weights are drawn from torch's default generators.
    """

    def __init__(self, config: PaperConfig, min_max: MinMax, device: torch.device) -> None:
        self.min_max, self.device, self.process = min_max, device, make_process(config.diffusion)
        self.alpha, self.sigma = self.process.alpha.float().to(device), self.process.sigma.float().to(device)
        self.coefficients = self.process.coefficients.float().to(device)
        self._scales_input = config.diffusion.sde == "ve"
        self.network = CSDINetwork(min_max.layout.width, len(self.process), **vars(config.network)).to(device)

    @property
    def tile(self) -> Tile:
        """Rows of one call in sampling: a power of two from 64 to 2,048."""
        rows = 1 << min(11, max(6, (TOKENS[self.device.type] // self.min_max.layout.width).bit_length() - 1))
        return Tile(rows, padded=True)

    @property
    def chains_at_once(self) -> int:
        """Number of chains of a tile in one call of the network: one on the CPU."""
        if self.device.type == "cpu":
            return 1
        return max(1, min(TOKENS[self.device.type] // self.min_max.layout.width, _MAX_ROWS) // self.tile.rows)

    @property
    def levels(self) -> Tensor:
        """The numbers of all noise levels, each as `predict` takes it: int64 ``[T, 1]``."""
        return torch.arange(len(self.process), device=self.device)[:, None]

    def predict(self, x: Tensor, t: Tensor, *, autocast: bool = False) -> Tensor:
        """The predicted noise of rows.

        Rows of the variance-exploding process are first scaled to a variance near 1.

        Parameters
        ----------
        x : Tensor
            Noisy rows, ``[B, D]``.
        t : Tensor
            Numbers of their noise levels, int64 ``[B]`` or ``[1]``.
        autocast : bool
            Whether CUDA's autocast to bfloat16 is on; otherwise float32.

        Returns
        -------
        Tensor
            ``[B, D]``.
        """
        if self._scales_input:
            x = x * torch.rsqrt(1 + self.sigma[t] ** 2)[:, None]
        precision: AbstractContextManager[object] = nullcontext()
        if autocast:  # in training without its cache: a graph must read the weights as they are
            precision = torch.autocast("cuda", torch.bfloat16, cache_enabled=not torch.is_grad_enabled())
        with precision:
            prediction: Tensor = self.network(x, t)
        return prediction


def make_process(config: DiffusionConfig) -> Process:
    """The noising process of these settings."""
    if config.sde == "vp":
        return variance_preserving(config.steps, config.beta_min, config.beta_max, config.variance)
    return variance_exploding(config.steps, config.sigma_min, config.sigma_max, config.variance)
