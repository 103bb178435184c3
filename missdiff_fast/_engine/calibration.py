"""Calibration of a trained network: drawn rows get the marginal distributions of the table."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from missdiff_fast._engine.correlations import LinearMap, correction
from missdiff_fast._engine.folds import HIDDEN_SHARE, hide_some
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.quantiles import ScoreCells, calibrated, quantiles, unremarkable
from missdiff_fast._engine.random import derive, make_key, shuffled
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.shares import log_ratio, mean_chances, missing_shares, shares, shares_of
from missdiff_fast._engine.spread import choose_sigma_min
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import Config, SolverConfig
from missdiff_fast.config.drawing import LEAST_ROWS
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

_REDRAWN = 2  # Rare columns are drawn again in so many more rows: few of these observe two of them.
_DAMPING = 0.7  # of the rounds after the first
_CONDITIONAL_ROWS = 1 << 13  # most rows of the table by which the weights of rows with known cells are found
_COPIES = 8  # of a small table's rows among these
_CONDITIONAL_DAMPING = 1.0, 0.5  # of the rounds for these weights
# In a model file.
_NAMES = "log_weights", "conditional_log_weights", "drawn_quantiles", "wanted_quantiles", "conditional_sigma_min"
_LINEAR_NAMES = "linear_columns", "linear_factors", "linear_shift"


@dataclass(frozen=True)
class Calibration:
    """Corrections of drawn rows.

    Parameters
    ----------
    log_weights : Tensor
        Logarithms of the weights of the categories, float32 ``[D - C]``. A weight multiplies the prior probability of
        its category, and with it the posterior at every noise level: the logarithm is added to the category's logit.
    conditional : Tensor
        The same for missing cells that are drawn given the known ones of a table's rows.
    linear : LinearMap
        New scores of rarely observed columns, which correct their dependence on others.
    drawn, wanted : Tensor
        Quantiles of each column's scores, mapped so, in drawn rows and in the table, ascending, float32 ``[C, Q]``,
        equal where a column is left as it is. Drawn scores are mapped from one to the other, between the quantiles in
        proportion. Of a column with atoms they are those of the cells with another value.
    sigma_min : Tensor
        The least noise level of draws given the known cells of a table's rows, float64 ``[]``; the solver's if greater.

    Examples
    --------
    >>> calibration = Calibration.none(Layout(1, (2,)))
    >>> calibration.scores(torch.tensor([[0.5]])).tolist()
    [[0.5]]
    """

    log_weights: Tensor
    conditional: Tensor
    linear: LinearMap
    drawn: Tensor
    wanted: Tensor
    sigma_min: Tensor

    @classmethod
    def none(cls, layout: Layout, device: torch.device | None = None) -> Calibration:
        """No corrections."""
        quantiles = torch.zeros((layout.num_continuous, 0), device=device)
        weights = torch.zeros(layout.width - layout.num_continuous, device=device)
        linear = LinearMap.none(layout.num_continuous, device)
        level = torch.zeros((), dtype=torch.float64, device=device)
        # Of their own memory, which a model file needs.
        return cls(weights, weights.clone(), linear, quantiles, quantiles.clone(), level)

    def solver(self, solver: SolverConfig) -> SolverConfig:
        """The noise levels of draws given the known cells of a table's rows."""
        return replace(solver, sigma_min=max(solver.sigma_min, float(self.sigma_min)))

    def network(self, network: Denoiser, *, conditional: bool = False) -> Denoiser:
        """The network, or where there are weights a copy of it whose categories have them."""
        return _weighted(network, self.conditional if conditional else self.log_weights)

    def rows(self, x: Tensor, known: EncodedTable) -> Tensor:
        """Encoded rows ``[B, D]``, with corrected scores where nothing of a row is known: others are conditional.

        The score of an atom stays.
        """
        nothing_known = ~known.observed().any(1, keepdim=True)
        if x.device.type == "cpu" and not bool(nothing_known.any()):  # a GPU would have to tell the host
            return x
        own, rest = x.split([self.drawn.shape[0], x.shape[1] - self.drawn.shape[0]], 1)
        free = nothing_known.repeat(1, own.shape[1])
        groups = rest.split(known.layout.cardinalities, 1)
        for c, k in known.layout.atoms().items():
            free[:, c] &= groups[k].argmax(1) == groups[k].shape[1] - 1
        return torch.cat([torch.where(free, self.scores(own), own), rest], 1)

    def scores(self, scores: Tensor) -> Tensor:
        """Corrected scores, ``[B, C]``; beyond the outer quantiles all are moved as these are."""
        scores = self.linear(scores)
        if self.drawn.shape[1] == 0:
            return scores
        moved = torch.empty_like(scores)
        for c, (drawn, wanted) in enumerate(zip(self.drawn, self.wanted, strict=True)):
            x = scores[:, c].contiguous()
            below = (torch.searchsorted(drawn, x) - 1).clamp(0, len(drawn) - 2)
            share = (x - drawn[below]) / (drawn[below + 1] - drawn[below]).clamp(min=1e-6)
            inside = torch.lerp(wanted[below], wanted[below + 1], share.clamp(0, 1))
            moved[:, c] = inside + (x - drawn[-1]).clamp(min=0) + (x - drawn[0]).clamp(max=0)
        return moved

    def tensors(self) -> dict[str, Tensor]:
        """The fields by name, in their order, for a model file."""
        fields = self.log_weights, self.conditional, self.drawn, self.wanted, self.sigma_min
        linear = self.linear.columns, self.linear.factors, self.linear.shift
        return dict(zip((*_NAMES, *_LINEAR_NAMES), (*fields, *linear), strict=True))

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device) -> Calibration:
        """From the tensors of a model file; KeyError where one is not there."""
        weights, conditional, drawn, wanted, sigma_min = (tensors[name].to(device) for name in _NAMES)
        linear = LinearMap(*(tensors[name].to(device) for name in _LINEAR_NAMES))
        return cls(weights, conditional, linear, drawn, wanted, sigma_min)


def calibrate(
    network: Denoiser,
    imputer: Denoiser,
    table: EncodedTable,
    held_out: EncodedTable | None,
    config: Config,
    backend: Backend,
    seed: int,
) -> Calibration:
    """Corrections with which drawn rows have categories as often, and scores distributed, as the table.

    The distributions to reach are those of the table with its missing cells filled given the observed ones, which under
    MAR are those of complete rows: missing categories count as `missing_shares` says, numbers as drawn. Of
    columns with atoms the scores of other values are calibrated. Columns observed less than half as often as the one
    observed most have no such target, which would be drawn cells: their dependence is corrected first, and their
    scores then get the distribution of the observed ones where the two differ by no more than chance. Quantiles of
    drawn scores are those of the last round's rows.

    Rows with known cells have weights of their own, with which drawn categories are as frequent as their probabilities
    in one pass say, and a noise level of their own at which to end, where rows are held out to tell it.

    Parameters
    ----------
    network : Denoiser
        The trained network, which draws.
    imputer : Denoiser
        The network whose probabilities missing categories have.
    table : EncodedTable
        The training rows.
    held_out : EncodedTable, optional
        Those of them that the networks were not trained on.
    config : Config
        Settings: ``calibration`` and the solver.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    """
    layout, rounds = table.layout, config.calibration.rounds
    found = Calibration.none(layout, table.device)
    scores = calibrated(table) if config.calibration.scores else []
    if rounds == 0:
        return found
    if held_out is not None:
        level = choose_sigma_min(network, held_out, config.solver, config.calibration.sigma_min, backend, seed)
        found = replace(found, sigma_min=torch.tensor(level, dtype=torch.float64, device=table.device))
    if not (layout.cardinalities or scores):
        return found
    solver = found.solver(config.solver)
    found = replace(found, conditional=_conditional(network, imputer, table, config, solver, backend, seed))
    wanted = shares(table, missing_shares(imputer, table, backend, seed))
    most = min(config.calibration.rows, max(LEAST_ROWS, 4 * len(table)))
    # Without categories one round tells the scores.
    for r in range(0 if layout.cardinalities else rounds - 1, rounds):
        # A round draws four times as many rows as the one before: the first differences are the largest.
        nothing = unknown(max(LEAST_ROWS, most >> 2 * (rounds - 1 - r)), layout, table.device)
        drawn = fill(found.network(network), nothing, config.solver, backend, derive(seed, "calibrate", r + 1))
        change = _change(wanted, shares(drawn), len(drawn), _DAMPING if r else 1.0)
        found = replace(found, log_weights=found.log_weights + change)
    if not scores:
        return found
    target = ScoreCells.of(table, found.network(network, conditional=True), scores, config.solver, backend, seed)
    rows = _REDRAWN * config.calibration.rows
    linear = correction(network, table, drawn, scores, config.solver, backend, rows, seed)
    found, drawn = replace(found, linear=linear), replace(drawn, continuous=linear(drawn.continuous))
    own, theirs = quantiles(drawn, target, scores)
    rare = unremarkable(table, drawn, [c for c in range(layout.num_continuous) if c not in scores])
    more, seen = quantiles(drawn, ScoreCells(table), rare)
    return replace(found, drawn=own + more, wanted=theirs + seen)


def _change(wanted: Tensor, drawn: Tensor, count: Tensor | int, damping: float) -> Tensor:
    """The change of the log weights in a round, from wanted and drawn shares and the number of drawn cells."""
    return damping * log_ratio(wanted, drawn, count)


def _conditional(
    network: Denoiser,
    imputer: Denoiser,
    table: EncodedTable,
    config: Config,
    solver: SolverConfig,
    backend: Backend,
    seed: int,
) -> Tensor:
    """The logarithms of the weights for rows with known cells: ``[D - C]``.

    A fifth of the known cells of rows of the table is hidden. A small table's rows are taken eight times, each time
    with other cells hidden: the error of the shares is then less than what the table's own shares vary by.
    """
    layout = table.layout
    weights = Calibration.none(layout, table.device).conditional
    if not layout.cardinalities:
        return weights
    most = min(_CONDITIONAL_ROWS, config.calibration.rows, max(LEAST_ROWS, _COPIES * len(table)))
    order = shuffled(len(table), derive(seed, "choose", 1))
    some = replace(table.rows(order.repeat(-(-most // len(order)))[:most].to(table.device)), values=None)
    some = hide_some(some, HIDDEN_SHARE, make_key(derive(seed, "hide"), 0, table.device), backend)
    some = some.rows((some.codes < 0).any(1).nonzero()[:, 0])
    missing = some.codes < 0
    wanted = mean_chances(imputer, some, backend, derive(seed, "choose", 2))
    count = layout.of_groups(missing.sum(0).clamp(min=1))
    for r in range(min(config.calibration.rounds, len(_CONDITIONAL_DAMPING))):
        drawn = fill(_weighted(network, weights), some, solver, backend, derive(seed, "hide", r + 1))
        weights = weights + _change(wanted, shares_of(drawn, missing), count, _CONDITIONAL_DAMPING[r])
    return weights


def _weighted(network: Denoiser, log_weights: Tensor) -> Denoiser:
    """The network, or where a weight is not 1 a copy of it with the logarithms added to its categories' logits."""
    if not bool(log_weights.any()):
        return network
    network = copy.deepcopy(network)
    first = network.num_continuous
    with torch.no_grad():
        network.outputs.bias[first : first + len(log_weights)] += log_weights
    return network
