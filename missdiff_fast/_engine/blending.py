"""Imputation that averages the network's and a joint normal distribution's, for tables with few rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import folds
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.joint_normal import JointNormal, has_features
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, make_key
from missdiff_fast._engine.refinement import MIN_ROWS_TO_HOLD_OUT
from missdiff_fast.table.encoded import EncodedTable, Layout

_ROWS = 8192  # whose predictions are in memory at a time
_PARTS = 5  # of a table of very few rows
_PRIOR_STD = 0.25  # of the weights of columns about that of all columns


@dataclass(frozen=True)
class Blend:
    """A weighted mean of two imputations: conditional means, and probabilities of categories.

    Parameters
    ----------
    joint : JointNormal
        The second imputation.
    weight : Tensor
        Its weight for each column of the table without atoms, in [0, 1]: float32 ``[J]``. The rest is the network's.
    """

    joint: JointNormal
    weight: Tensor

    @cached_property
    def _weights(self) -> list[float]:
        """``weight`` on the host, for which a GPU is waited for once."""
        return self.weight.tolist()

    def mix(self, table: EncodedTable, logits: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """Mix the network's results for some rows with those of the joint distribution.

        Parameters
        ----------
        table : EncodedTable
            The rows, without atoms.
        logits, means : Tensor
            The network's, as `one_pass` yields them; groups of atoms stay as they are.

        Returns
        -------
        logits, means : Tensor, Tensor
            Of the same shapes; the logits are logarithms of probabilities where the weight is not 0.
        """
        layout, C = table.layout, table.layout.num_continuous
        other = self.joint.predict(table)
        means = torch.lerp(means, other[:, :C], self.weight[:C])
        groups, first = [], 0
        for size, weight in zip(layout.cardinalities, self._weights[C:], strict=True):
            group = logits[:, first : first + size]
            if weight > 0:
                theirs = other[:, C + first : C + first + size]
                group = torch.lerp(torch.softmax(group, 1), theirs, weight).log()
            groups.append(group)
            first += size
        return torch.cat([*groups, logits[:, first:]], 1), means

    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name, for a model file."""
        return {**vars(self.joint), "weight": self.weight}

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device) -> Blend:
        """The inverse of `tensors`."""
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        weight = tensors.pop("weight")
        return cls(JointNormal(**tensors), weight)


def fit_blend(
    network: nn.Module,
    table: EncodedTable,
    held_out: EncodedTable | None,
    plain: Layout,
    backend: Backend,
    seed: int,
) -> Blend | None:
    """Fit the joint distribution, and weigh it by the squared errors of both imputations.

    A column's weight is the least-squares one, with a normal prior about the weight that is best for all columns of
    its kind: few held-out cells move it little.

    Parameters
    ----------
    network : nn.Module
        The trained network.
    table : EncodedTable
        The rows it was trained on, with the columns of the atoms.
    held_out : EncodedTable, optional
        Rows it was not trained on. Without them the weights are those on the training rows.
    plain : Layout
        The table's without atoms.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Says which cells are hidden when.

    Returns
    -------
    Blend or None
        None where the joint distribution is of no use for any column.
    """
    joint = JointNormal.fit(table.leading(plain))
    C, J = plain.num_continuous, plain.num_columns
    sums = torch.zeros((3, J), dtype=torch.float64, device=table.device)
    count = torch.zeros(J, dtype=torch.float64, device=table.device)
    for truth, hidden, ours, theirs in _all_predictions(network, joint, table, held_out, plain, backend, seed):
        gap, error = theirs - ours, truth - ours
        for i, product in enumerate((error * gap, gap * gap, error * error)):
            sums[i] += _by_column(product, plain).where(hidden, 0.0).sum(0)
        count += hidden.sum(0)
    products, gaps, errors = sums
    variance = (errors / count.clamp(min=1)).clamp(min=1e-12)
    weight = torch.zeros(J, device=table.device)
    for kind in (slice(0, C), slice(C, J)):
        evidence, agreement = gaps[kind] / variance[kind], products[kind] / variance[kind]
        common = (agreement.sum() / evidence.sum().clamp(min=1e-12)).clamp(0, 1)
        prior = _PRIOR_STD**-2
        weight[kind] = ((agreement + prior * common) / (evidence + prior)).clamp(0, 1).float()
    weight *= has_features(plain, table.device)
    return Blend(joint, weight) if bool(weight.any()) else None


def _all_predictions(
    network: nn.Module,
    joint: JointNormal,
    table: EncodedTable,
    held_out: EncodedTable | None,
    plain: Layout,
    backend: Backend,
    seed: int,
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """As `_predictions`, of the held-out rows, or else of the training rows.

    A joint distribution fits fewer than 200 rows too closely to tell anything: one of the others predicts each fifth.
    """
    if held_out is not None or len(table) >= MIN_ROWS_TO_HOLD_OUT:
        yield from _predictions(network, joint, held_out or table, plain, backend, seed)
        return
    part = torch.arange(len(table), device=table.device) % _PARTS
    for k in range(_PARTS):
        others, own = (table.rows(rows.nonzero()[:, 0]) for rows in (part != k, part == k))
        yield from _predictions(network, JointNormal.fit(others.leading(plain)), own, plain, backend, seed)


def _predictions(
    network: nn.Module, joint: JointNormal, table: EncodedTable, plain: Layout, backend: Backend, seed: int
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Truth, hidden cells and both predictions of some rows at a time, with each fold of the cells hidden in turn.

    Truth and predictions are ``[n, C + sum(V_k)]``, values and probabilities; the hidden cells are bool ``[n, J]``.
    """
    J = plain.num_columns
    key = make_key(derive(seed, "probe"), 1, table.device)
    for start in range(0, len(table), _ROWS):
        piece = table.rows(slice(start, start + _ROWS))
        rows, truth = torch.arange(start, start + len(piece), device=table.device), _truth(piece.leading(plain))
        for hidden, masked in folds(piece, rows, key, backend):
            ours = []
            for _, _, logits, means in one_pass(network, masked, backend):
                groups = logits[:, : plain.width - plain.num_continuous].split(plain.cardinalities, 1)
                ours.append(torch.cat([means, *(torch.softmax(group, 1) for group in groups)], 1))
            yield truth, hidden[:, :J], torch.cat(ours), joint.predict(masked.leading(plain))


def _truth(table: EncodedTable) -> Tensor:
    """Values, and 1 for the category of each cell: ``[N, C + sum(V_k)]``; missing cells are 0."""
    assert table.values is not None
    return torch.cat([table.values.nan_to_num(0.0), table.one_hot(table.values.dtype)], 1)


def _by_column(x: Tensor, layout: Layout) -> Tensor:
    """Sums over the encoded columns of each column: float64 ``[N, J]``."""
    sums = torch.zeros((len(x), layout.num_columns), dtype=torch.float64, device=x.device)
    return sums.index_add_(1, layout.groups(x.device), x.double())
