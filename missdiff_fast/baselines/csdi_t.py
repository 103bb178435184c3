"""CSDI_T: imputation by a diffusion model that draws a row's missing cells given its observed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from missdiff_fast._checks import check_count, check_positive
from missdiff_fast._engine.device import resolve_device
from missdiff_fast._engine.random import derive, seeded
from missdiff_fast._progress import progress_bar
from missdiff_fast.baselines._encoding import EncodedCells, Encoder
from missdiff_fast.baselines._imputer import Imputer
from missdiff_fast.baselines._training import check_finite, epoch
from missdiff_fast.diffusion.schedule import alphas_cumprod, quadratic_betas
from missdiff_fast.diffusion.solver import ancestral_vp
from missdiff_fast.networks.csdi import CSDINetwork
from missdiff_fast.table.min_max import check_near

_BETAS = 1e-4, 0.5
_WEIGHT_DECAY = 1e-6
# Shares of all steps; at each the learning rate falls to a tenth.
_MILESTONES: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9)


class CSDITImputer(Imputer):
    """Conditional score-based diffusion for tables (Zheng and Charoenphakdee, 2022), after CSDI (Tashiro et al., 2021).

    In training, a share of the observed columns of each row is hidden, and the network of `MissDiff`'s paper, with the
    cells left as a second channel and their mask beside, predicts the noise of the hidden ones. To impute, the missing
    cells are drawn many times given the observed ones; the median of the draws is the result, of a one-hot group the
    column whose median is greatest. Whole columns are hidden, as a hole is a whole column; numbers and one-hot columns
    lie in [-1, 1].

    Parameters
    ----------
    epochs, batch_size : int
        Passes over the rows, rows of a step.
    learning_rate : float
        Of Adam; it falls to a tenth after 25, 50, 75 and 90 % of the steps.
    hidden_share : float
        The share of a row's observed columns that are hidden in training, in (0, 1].
    num_draws : int
        Draws of each hole.
    steps : int
        T, the number of noise levels, from beta 0.0001 to 0.5 by the quadratic schedule.
    channels, layers, heads : int
        Of `missdiff_fast.networks.csdi.CSDINetwork`.
    tile : int
        Rows imputed at a time.
    device : str
        "auto", "cpu" or "cuda".
    **settings
        As of `missdiff_fast.baselines.MeanModeImputer`: random_state, verbose, missing_values, max_categories.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [1.0, None, 3.0, 4.0] * 4, "y": ["a", "a", None, "b"] * 4})
    >>> imputer = CSDITImputer(epochs=1, num_draws=2, steps=3, channels=8, heads=2, random_state=0).fit(table)
    >>> int(imputer.impute(table).isna().sum().sum())
    0
    """

    def __init__(
        self,
        epochs: int = 250,
        batch_size: int = 64,
        learning_rate: float = 5e-4,
        hidden_share: float = 0.8,
        num_draws: int = 100,
        steps: int = 100,
        channels: int = 64,
        layers: int = 4,
        heads: int = 4,
        tile: int = 512,
        device: str = "auto",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden_share = hidden_share
        self.num_draws = num_draws
        self.steps = steps
        self.channels = channels
        self.layers = layers
        self.heads = heads
        self.tile = tile
        self.device = device

    def _check(self) -> None:
        for name in ("epochs", "batch_size", "num_draws", "channels", "layers", "heads", "tile"):
            check_count(name, getattr(self, name), least=1)
        check_count("steps", self.steps, least=2)
        check_positive("learning_rate", self.learning_rate)
        if check_positive("hidden_share", self.hidden_share) > 1:
            raise ValueError(f"hidden_share must be at most 1, got {self.hidden_share}")

    def _learn(self, encoder: Encoder, cells: EncodedCells, seed: int) -> None:
        device = resolve_device(self.device)
        self._encoding, self._seed = encoder, seed
        self._betas = quadratic_betas(self.steps, *_BETAS)
        x, observed = _scaled(encoder, cells, device)
        sizes = self.channels, self.layers, self.heads
        with seeded(derive(seed, "weights")):
            network = CSDINetwork(encoder.layout.width, self.steps, *sizes, conditional=True).to(device)
            self._train(network, x, observed, encoder.layout.groups(device), seed)
        self._network = network.eval()

    def _train(self, network: CSDINetwork, x: Tensor, observed: Tensor, groups: Tensor, seed: int) -> None:
        """Train on rows ``[N, D]`` of which the columns ``[N, J]`` are observed."""
        device = x.device
        order = torch.Generator().manual_seed(derive(seed, "batches"))
        draws = torch.Generator(device).manual_seed(derive(seed, "noise"))
        optimizer = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=_WEIGHT_DECAY, fused=True
        )
        total = self.epochs * -(-len(x) // self.batch_size)
        milestones = [max(1, int(share * total)) for share in _MILESTONES]
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
        share = alphas_cumprod(self._betas).to(device)
        signal, spread = share.sqrt().float()[:, None], (1 - share).sqrt().float()[:, None]
        for _ in progress_bar(range(self.epochs), desc="CSDI_T", unit="epoch", verbose=self.verbose):
            for rows in epoch(len(x), self.batch_size, order):
                batch, seen = x[rows.to(device)], observed[rows.to(device)]
                asked = hide_some(seen, self.hidden_share, draws)[:, groups].float()
                known = seen[:, groups].float() - asked
                t = torch.randint(self.steps, (len(batch),), generator=draws, device=device)
                noise = torch.randn(batch.shape, generator=draws, device=device)
                noisy = (signal[t] * batch + spread[t] * noise) * (1 - known)
                predicted = network(noisy, t, batch * known, known)
                loss = ((noise - predicted) * asked).square().sum() / asked.sum().clamp(min=1)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                scheduler.step()
            check_finite(*network.parameters())

    @torch.no_grad()
    def _fill(self, cells: EncodedCells) -> EncodedCells:
        device = self._network.places.device
        check_near(torch.from_numpy(cells.values), self._encoding.codec.schema.continuous)
        dense = self._encoding.dense(cells)
        x, observed = _scaled(self._encoding, cells, device)
        known = observed[:, self._encoding.layout.groups(device)].float()
        draws = torch.Generator(device).manual_seed(derive(self._seed, "fill"))
        holes = (~observed.all(1)).nonzero()[:, 0]
        bar = progress_bar(total=len(holes), desc="CSDI_T", unit="row", verbose=self.verbose)
        with bar:
            for rows in holes.split(self.tile) if len(holes) else ():
                drawn = [self._draw(x[rows], known[rows], draws) for _ in range(self.num_draws)]
                median = (torch.stack(drawn).median(0).values + 1) / 2
                where = rows.cpu().numpy()
                dense[where] = np.where(np.isnan(dense[where]), median.cpu().numpy(), dense[where])
                bar.update(len(rows))
        return self._encoding.cells(dense)

    def _draw(self, x: Tensor, known: Tensor, draws: torch.Generator) -> Tensor:
        """One draw of the cells that are not known: ``[B, D]``."""
        drawn = torch.randn(x.shape, generator=draws, device=x.device)
        coefficients = ancestral_vp(self._betas, "posterior").tolist()
        for i, (keep, predict, _, spread) in enumerate(coefficients):
            t = torch.tensor([self.steps - 1 - i], device=x.device)
            noise = self._network(drawn * (1 - known), t, x * known, known)
            drawn = keep * drawn + predict * noise
            if spread:
                drawn += spread * torch.randn(x.shape, generator=draws, device=x.device)
        return drawn


def hide_some(observed: Tensor, share: float, draws: torch.Generator) -> Tensor:
    """Of each row's observed columns, a share chosen at random (rounded to whole columns): bool ``[B, J]``."""
    order = torch.rand(observed.shape, generator=draws, device=observed.device)
    rank = order.masked_fill(~observed, torch.inf).argsort(1).argsort(1)
    return (rank < (observed.sum(1, keepdim=True) * share).round()) & observed


def _scaled(encoder: Encoder, cells: EncodedCells, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cells in [-1, 1], 0 where missing, float32 ``[N, D]``, and which columns are observed, bool ``[N, J]``."""
    x = 2 * torch.from_numpy(encoder.dense(cells)).float() - 1
    observed = ~torch.isnan(x[:, [block.start for block in encoder.blocks()]])
    return torch.nan_to_num(x).to(device), observed.to(device)
