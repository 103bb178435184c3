"""GAIN: imputation by a generator whose filled cells a discriminator cannot tell from observed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from missdiff_fast._checks import check_count, check_positive
from missdiff_fast._engine.device import resolve_device
from missdiff_fast._engine.random import derive, seeded
from missdiff_fast._engine.training import batches
from missdiff_fast._progress import progress_bar
from missdiff_fast.baselines._encoding import EncodedCells, Encoder
from missdiff_fast.baselines._imputer import Imputer
from missdiff_fast.baselines._training import check_finite
from missdiff_fast.table.min_max import check_near

_NOISE = 0.01  # upper end of the uniform noise that the generator sees in holes
_TINY = 1e-8


class GAINImputer(Imputer):
    """Generative adversarial imputation nets (Yoon, Jordon and van der Schaar, 2018).

    Generator and discriminator are MLPs with two hidden layers as wide as the encoded row (numbers in [0, 1] and
    one-hot categories). The discriminator is given a hint, ``b m`` with the mask m and b = 1 with probability
    `hint_rate`, drawn once for each table column, as the mask of a one-hot group is one. Hint and reconstruction loss
    (squared error for all columns) are those of the released code; the paper's text has ``b m + (1 - b) / 2``, which
    does worse on the Census table.

    Parameters
    ----------
    iterations, batch_size : int
        Steps of both networks, rows of each.
    hint_rate : float
        In (0, 1].
    alpha : float
        Weight of the reconstruction loss.
    learning_rate : float
        Of Adam.
    device : str
        "auto", "cpu" or "cuda".
    **settings
        As of `missdiff_fast.baselines.MeanModeImputer`: random_state, verbose, missing_values, max_categories.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [1.0, None, 3.0, 4.0] * 8, "y": ["a", "a", None, "b"] * 8})
    >>> filled = GAINImputer(iterations=3, random_state=0).fit(table).impute(table)
    >>> int(filled.isna().sum().sum())
    0
    """

    def __init__(
        self,
        iterations: int = 10_000,
        batch_size: int = 128,
        hint_rate: float = 0.9,
        alpha: float = 100.0,
        learning_rate: float = 1e-3,
        device: str = "auto",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.iterations = iterations
        self.batch_size = batch_size
        self.hint_rate = hint_rate
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.device = device

    def _check(self) -> None:
        check_count("iterations", self.iterations, least=1)
        check_count("batch_size", self.batch_size, least=1)
        check_positive("alpha", self.alpha)
        check_positive("learning_rate", self.learning_rate)
        if check_positive("hint_rate", self.hint_rate) > 1:
            raise ValueError(f"hint_rate must be at most 1, got {self.hint_rate}")

    def _learn(self, encoder: Encoder, cells: EncodedCells, seed: int) -> None:
        device = resolve_device(self.device)
        self._encoding, self._seed = encoder, seed
        x, mask = _tensors(encoder.dense(cells), device)
        groups, width = encoder.layout.groups(device), encoder.layout.width
        with seeded(derive(seed, "weights")):
            generator, discriminator = _mlp(width).to(device), _mlp(width).to(device)
        nets = generator, discriminator
        optimizers = [torch.optim.Adam(net.parameters(), lr=self.learning_rate, fused=True) for net in nets]
        draws = torch.Generator(device).manual_seed(derive(seed, "noise"))
        order = batches(len(cells), self.batch_size, torch.Generator().manual_seed(derive(seed, "batches")))
        bar = progress_bar(range(self.iterations), desc="GAIN", unit="step", verbose=self.verbose)
        for _ in bar:
            rows = next(order).to(device)
            x_batch, m = x[rows], mask[rows]
            kept = torch.rand((len(rows), encoder.layout.num_columns), generator=draws, device=device)
            b = (kept < self.hint_rate).float()[:, groups]
            hint = b * m
            drawn = _generate(generator, x_batch, m, draws)
            filled = m * x_batch + (1 - m) * drawn
            judged = discriminator(torch.cat([filled.detach(), hint], 1))
            check_finite(judged)
            _descend(optimizers[1], functional.binary_cross_entropy(judged, m))
            judged = discriminator(torch.cat([filled, hint], 1))
            fooled = -((1 - m) * torch.log(judged + _TINY)).mean()
            rebuilt = (m * (x_batch - drawn) ** 2).sum() / m.sum().clamp(min=1)
            _descend(optimizers[0], fooled + self.alpha * rebuilt)
        check_finite(*generator.parameters())
        self._generator = generator.eval()

    @torch.no_grad()
    def _fill(self, cells: EncodedCells) -> EncodedCells:
        check_near(torch.from_numpy(cells.values), self._encoding.codec.schema.continuous)
        dense = self._encoding.dense(cells)
        device = next(self._generator.parameters()).device
        draws = torch.Generator(device).manual_seed(derive(self._seed, "fill"))
        x, mask = _tensors(dense, device)
        drawn = _generate(self._generator, x, mask, draws).cpu().numpy()
        return self._encoding.cells(np.where(np.isnan(dense), drawn, dense))


def _mlp(width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (2 * width, width, width):
        linear = nn.Linear(inputs, width)
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Sigmoid())


def _tensors(dense: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cells, 0 where missing, and their mask, 1 where observed: float32 ``[N, D]`` each."""
    x = torch.from_numpy(dense).float().to(device)
    return torch.nan_to_num(x), (~torch.isnan(x)).float()


def _generate(generator: nn.Module, x: Tensor, mask: Tensor, draws: torch.Generator) -> Tensor:
    noise = _NOISE * torch.rand(x.shape, generator=draws, device=x.device)
    return generator(torch.cat([mask * x + (1 - mask) * noise, mask], 1))


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
