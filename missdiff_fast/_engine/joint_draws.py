"""Which missing cells are drawn from a joint normal distribution, after the network has drawn the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import FOLDS, folds
from missdiff_fast._engine.joint_normal import MOST_ROWS, has_features
from missdiff_fast._engine.normal_draws import AGAIN, ROUNDS, SWEEPS, NormalDraws
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, make_key
from missdiff_fast._engine.sampling import draw
from missdiff_fast.config import SolverConfig
from missdiff_fast.table.encoded import EncodedTable, Layout

_ROWS = 200  # At most so many held-out rows are compared.
_DRAWS = 10  # The energy score is that of so many draws of each hidden cell.
_MARGIN = 2.0  # The network draws a column where it is better by more than so many standard errors of the mean gain.
_LEAST_SCORE = 0.02  # Differences are divided by the column's usual energy score, or by this where that is less.
_MOST_WORK = 2.4e10  # Of `work`: about 40 seconds on one core.
_MOST_ROW_WORK = 480_000  # Of one drawn row: about a millisecond on one core, 200 features where there are categories.
_PRIOR_CELLS = 50  # The mean difference of all columns counts as much as so many cells of each column.


@dataclass(frozen=True)
class JointDraws:
    """Draws of some columns' missing cells from a joint normal distribution.

    Parameters
    ----------
    columns : Tensor
        The columns that are drawn: bool ``[J]``, of the table without atoms.
    joint : NormalDraws
        The distribution of the training rows.
    refits : sequence of NormalDraws
        Those of bootstrap samples of the rows.
    """

    columns: Tensor
    joint: NormalDraws
    refits: Sequence[NormalDraws] = ()

    def with_others(self, table: EncodedTable, scores: Tensor, codes: Tensor) -> EncodedTable:
        """The table with the missing cells of the columns that are not drawn taken from ``[N, C]`` and ``[N, K]``."""
        C = table.layout.num_continuous
        numbers = table.continuous.isnan() & ~self.columns[:C]
        categories = (table.codes < 0) & ~self.columns[C:]
        return table.with_cells(
            torch.where(numbers, scores.to(table.continuous), table.continuous),
            torch.where(categories, codes.to(table.codes), table.codes),
            None,
        )

    def fill(
        self, table: EncodedTable, backend: Backend, seed: int, *, first_row: int = 0, refit: int | None = None
    ) -> EncodedTable:
        """The table with the missing cells of the columns drawn; row i depends on (seed, i) and its cells alone.

        All missing cells of a row are drawn together, and those of other columns forgotten. Rows without a missing
        cell of the columns are not drawn.
        """
        C = table.layout.num_continuous
        joint = self.joint if refit is None else self.refits[refit]
        rows = narrow(table)
        own = torch.cat(
            [self.columns[:C][: rows.layout.num_continuous], self.columns[C:][: rows.layout.num_categorical]]
        )
        drawn = joint.draw(rows, backend, derive(seed, "joint"), first_row=first_row, columns=own)
        continuous, codes = table.continuous.clone(), table.codes.clone()
        numbers, categories = self.columns[:C].nonzero()[:, 0], self.columns[C:].nonzero()[:, 0]
        continuous[:, numbers], codes[:, categories] = drawn.continuous[:, numbers], drawn.codes[:, categories]
        return table.with_cells(continuous, codes, None)

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name, for a model file."""
        found = {
            "joint.columns": self.columns,
            **{f"joint.{name}": tensor for name, tensor in vars(self.joint).items()},
        }
        for m, joint in enumerate(self.refits):
            found |= {f"joint_refits.{m}.{name}": tensor for name, tensor in vars(joint).items()}
        return found

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device) -> JointDraws | None:
        """The inverse of `tensors`, which may be among others; None where they are not."""
        if "joint.columns" not in tensors:
            return None

        def joint(name: str) -> NormalDraws:
            return NormalDraws(*(tensors[f"{name}.{field.name}"].to(device) for field in fields(NormalDraws)))

        number = sum(name.startswith("joint_refits.") and name.endswith(".mean") for name in tensors)
        refits = [joint(f"joint_refits.{m}") for m in range(number)]
        return cls(tensors["joint.columns"].to(device), joint("joint"), refits)


def narrow(table: EncodedTable) -> EncodedTable:
    """The table without residuals and without the places of wide columns, which no normal distribution describes."""
    layout = table.layout
    C, K = layout.num_continuous - len(layout.parents), layout.num_categorical - len(layout.partners)
    return table.leading(Layout(C, layout.cardinalities[:K]))


def work(num_rows: int, layout: Layout, *, held_out: int, refits: int) -> int:
    """The cost of the fits to all rows and to the refits' and of choosing columns: solved rows times features squared.

    Parameters
    ----------
    num_rows : int
        Of the table.
    layout : Layout
        Of the narrow table.
    held_out : int
        How many rows the columns are chosen by; 0 where they are not chosen.
    refits : int
        How many refits there are.

    Examples
    --------
    >>> work(1000, Layout(10), held_out=50, refits=0)
    11950000
    """
    rounds = sum(ROUNDS) + sum(AGAIN) * (refits + (held_out > 0))
    solved = 2 * min(num_rows, MOST_ROWS) * rounds + min(held_out, _ROWS) * FOLDS * _DRAWS * _solves(layout)
    return solved * NormalDraws.width(layout) ** 2


def affordable(num_rows: int, layout: Layout, *, held_out: int, refits: int) -> bool:
    """Whether to fit and to choose columns takes no more than about 40 seconds on one core, and a drawn row 1 ms.

    >>> affordable(2500, Layout(122), held_out=125, refits=5), affordable(8000, Layout(300), held_out=400, refits=0)
    (True, False)
    >>> affordable(300, Layout(1, (6,) * 50), held_out=15, refits=0)  # 301 features, in ten sweeps
    False
    """
    row = _solves(layout) * NormalDraws.width(layout) ** 2
    return row <= _MOST_ROW_WORK and work(num_rows, layout, held_out=held_out, refits=refits) <= _MOST_WORK


def estimated_seconds(work: int, rows: EncodedTable, backend: Backend) -> float:
    """How long `work` takes here, by the time of two rounds of a fit to the rows."""
    started = time.perf_counter()
    NormalDraws.fit(rows, backend, 0, rounds=(1, 1))
    solved = 2 * 2 * min(len(rows), MOST_ROWS) * NormalDraws.width(rows.layout) ** 2
    return (time.perf_counter() - started) * work / max(1, solved)


def _solves(layout: Layout) -> int:
    """How often the conditional means of a drawn row are solved for: at the start, in each sweep and for its noise."""
    return 2 + (SWEEPS if NormalDraws.width(layout) > layout.num_continuous else 1)


def choose_columns(
    network: nn.Module,
    joint: NormalDraws,
    table: EncodedTable,
    possible: Tensor,
    shown: Callable[[EncodedTable], EncodedTable],
    decode: Callable[[Tensor], tuple[Tensor, Tensor]],
    decode_table: Callable[[EncodedTable], tuple[Tensor, Tensor]],
    ranks: Sequence[Tensor],
    solver: SolverConfig,
    backend: Backend,
    seed: int,
) -> Tensor:
    """The columns that the joint distribution draws better than the network, by the energy score of hidden cells.

    The score of a number is that of its rank, so that it does not depend on outliers; that of a category counts wrong
    ones. Few cells are held out, so that what is found for all columns counts as some cells of each.

    Parameters
    ----------
    network : nn.Module
        The trained network.
    joint : NormalDraws
        Fitted to the rows that the network was trained on.
    table : EncodedTable
        Rows that neither was trained on, without atoms.
    possible : Tensor
        The columns to choose from, bool ``[J]``; see `candidates`.
    shown : callable
        Adds what the network sees and the table does not have, the atoms.
    decode : callable
        The places of the numbers' values and the codes of encoded rows, int32 ``[B, C]`` and int16 ``[B, K]``.
    decode_table : callable
        The same of a table without atoms.
    ranks : sequence of Tensor
        The rank of each value of each number, from 0 to 1.
    solver : SolverConfig
        Noise levels.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.

    Returns
    -------
    Tensor
        bool ``[J]``.
    """
    layout = table.layout
    everything, table = JointDraws(possible.to(table.device), joint), table.rows(slice(_ROWS))
    truth = _ranked(decode_table(table), ranks, layout)
    observed, gains, counted = table.observed().cpu() & possible, [], []
    usual = _usual(truth, observed, layout)
    numbers, key = torch.arange(len(table), device=table.device), make_key(derive(seed, "probe"), 2, table.device)
    for k, (hidden, piece) in enumerate(folds(table, numbers, key, backend), 1):
        copies = piece.rows(torch.arange(len(piece), device=table.device).repeat(_DRAWS))
        parts = draw(network, shown(copies), solver, backend, derive(seed, "joint", k))
        ours = torch.cat([_ranked(decode(x), ranks, layout) for _, _, x in parts])
        theirs = _ranked(decode_table(everything.fill(copies, backend, derive(seed, "joint", k))), ranks, layout)
        scores = [_energy(drawn.unflatten(0, (_DRAWS, -1)), truth, layout) for drawn in (ours, theirs)]
        gains.append((scores[0] - scores[1]) / usual)
        counted.append(hidden.cpu() & possible)
    return (_better(torch.cat(gains), torch.cat(counted)) & possible).to(table.device)


def _usual(truth: Tensor, observed: Tensor, layout: Layout) -> Tensor:
    """The energy score of draws of each column's own distribution, ``[J]``."""
    usual = []
    for j in range(layout.num_columns):
        cells = truth[observed[:, j], j]
        if j < layout.num_continuous:
            usual.append((cells[:, None] - cells).abs().mean() / 2)
        else:
            shares = torch.bincount(cells.long()) / max(1, len(cells))
            usual.append((1 - shares.square().sum()) / 2)
    return torch.stack(usual).nan_to_num(0.0).clamp(min=_LEAST_SCORE)


def _better(gains: Tensor, counted: Tensor) -> Tensor:
    """The columns whose counted cells gain, both ``[N, J]``: bool ``[J]``."""
    weights = counted.double()
    count, total = weights.sum(0), weights.sum().clamp(min=2)
    common = (gains * weights).sum() / total
    error = (((gains - common) * weights).square().sum() / (total - 1) / total).sqrt()
    return ((gains * weights).sum(0) + _PRIOR_CELLS * common) / (count + _PRIOR_CELLS) > -_MARGIN * error


def candidates(layout: Layout, numeric: Sequence[int] = ()) -> Tensor:
    """The columns that have a feature, no numeric relation and no places that follow from them: bool ``[J]``.

    Parameters
    ----------
    layout : Layout
        The table's, without atoms.
    numeric : sequence of int
        The columns of numeric relations, which have residuals or none: drawn cells would not fit the formulas.
    """
    found = has_features(layout)
    found[list(numeric)] = False
    found[layout.residuals()] = False
    for parents in layout.parents:
        found[list(parents)] = False
    if layout.partners:
        found[-len(layout.partners) :] = False
        found[list(layout.partners)] = False
    return found


def _ranked(decoded: tuple[Tensor, Tensor], ranks: Sequence[Tensor], layout: Layout) -> Tensor:
    places, codes = decoded[0].cpu().long(), decoded[1].cpu()[:, : layout.num_categorical]
    numbers = [rank[places[:, c]][:, None] for c, rank in enumerate(ranks)]
    return torch.cat([*numbers, codes.double()], 1)


def _energy(drawn: Tensor, truth: Tensor, layout: Layout) -> Tensor:
    """The energy score of each cell ``[N, J]``, from ``[M, N, J]`` draws; codes are equal or not."""
    C, M = layout.num_continuous, len(drawn)

    def apart(x: Tensor, y: Tensor) -> Tensor:
        gap = (x - y).abs()
        return torch.cat([gap[..., :C], (gap[..., C:] > 0).double()], -1)

    pairs = sum(apart(drawn[m], drawn[:m]).sum(0) for m in range(1, M))
    return apart(drawn, truth).mean(0) - pairs / (M * (M - 1))
