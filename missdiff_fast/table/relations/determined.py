"""The search for columns of which every value of another has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.relations.numeric import LEAST_ROWS
from missdiff_fast.table.relations.relation import Determined

_REPEATED = 3  # a source or a column has so many cells to each value, on average
_LEAST_RARE = 10  # tested rows without the column's most frequent value
_RIGHT, _RARE_RIGHT = 0.999, 0.99  # the least shares of tested rows that are predicted
_LEAST_STEPPED = 20  # values of a source that may have steps


class Pair(NamedTuple):
    """Places of a source and of a column that seems determined by it, and whether it is by steps."""

    source: int
    column: int
    steps: bool


def find_determined(codes: np.ndarray, repeated: np.ndarray, ordered: np.ndarray) -> Iterator[Pair]:
    """Pairs of columns that pass a test on some rows.

    A row's value is predicted by that of another row with the same value of the source, or for steps by those of its
    two neighbours in the order of the source where they agree.

    Parameters
    ----------
    codes : ndarray
        The columns' cells as numbers from 0 in the order of their values, int32 ``[n, J]``; -1 where missing.
    repeated : ndarray
        Which columns have values that occur again and again, bool ``[J]``.
    ordered : ndarray
        Which columns are numeric, bool ``[J]``.
    """
    modes = np.array([_mode(codes[:, j]) for j in range(codes.shape[1])], dtype=codes.dtype)
    targets = np.flatnonzero(repeated)
    for a in range(codes.shape[1]):
        steppable = bool(ordered[a]) and codes[:, a].max(initial=-1) + 1 >= _LEAST_STEPPED
        if not repeated[a] and not steppable:
            continue
        rows = np.flatnonzero(codes[:, a] >= 0)
        rows = rows[np.argsort(codes[rows, a], kind="stable")]
        if len(rows) < LEAST_ROWS:
            continue
        source, cells = codes[rows, a], codes[np.ix_(rows, targets)]
        passed = np.zeros(len(targets), dtype=bool)
        if repeated[a]:
            same = np.flatnonzero(source[1:] == source[:-1])
            one, other = cells[same], cells[same + 1]
            # Pairs of rows: a mistaken cell spoils two.
            passed = _passes((one >= 0) & (other >= 0), one == other, other != modes[targets], twice=True)
        stepped = np.zeros(len(targets), dtype=bool)
        if steppable:
            low, own, high = cells[:-2], cells[1:-1], cells[2:]
            tested = (low == high) & (low >= 0) & (own >= 0)
            stepped = _passes(tested, own == low, own != modes[targets], twice=True)
            stepped &= 2 * tested.sum(0) >= ((low >= 0) & (own >= 0) & (high >= 0)).sum(0)
        for i in np.flatnonzero(passed | stepped):
            if targets[i] != a:
                yield Pair(a, int(targets[i]), bool(stepped[i]))


def are_repeated(distinct: int, observed: int) -> bool:
    """Whether a column's values occur often enough to tell what they determine."""
    return distinct * _REPEATED <= observed


def learn_determined(pair: Pair, fields: list[Field], source: np.ndarray, own: np.ndarray) -> Determined | None:
    """The relation of a pair, tested on all rows that have both cells; None if it does not hold.

    Parameters
    ----------
    pair : Pair
        The columns.
    fields : list of Field
        All columns.
    source, own : ndarray
        Places of their cells among the kept values, int64 ``[N]``; -1 where missing or not kept.
    """
    a, b = fields[pair.source], fields[pair.column]
    seen = source >= 0
    counts = np.bincount(source[seen], minlength=len(a.numbers))
    seen &= own >= 0
    x, y = source[seen], own[seen]
    width = len(b.numbers)
    joint, each = np.unique(x * width + y, return_counts=True)
    of = joint // width
    # Sorted by source and, within, by count: the last of each source is its most frequent value.
    order = np.lexsort((each, of))
    joint, each, of = joint[order], each[order], of[order]
    last = np.append(of[1:] != of[:-1], True)
    image = np.full(len(a.numbers), -1, dtype=np.int32)
    image[of[last]] = joint[last] % width
    best = np.zeros(len(a.numbers), dtype=np.int64)
    best[of[last]] = each[last]
    total = np.bincount(of, each, len(a.numbers)).astype(np.int64)
    right = y == image[x]
    # The other rows of the value predict the row if they agree without it.
    tested, rare = (total[x] > 1) & ~(right & (best[x] == 1)), y != _mode(y)
    grouped = are_repeated(int((total > 0).sum()), len(x)) and bool(_passes(tested, right, rare))
    if not grouped and not pair.steps:
        return None
    steps = False
    if pair.steps:
        order = np.argsort(x, kind="stable")
        line = y[order]
        alike = line[:-2] == line[2:]
        passes = bool(_passes(alike, line[1:-1] == line[:-2], rare[order][1:-1])) and bool(right.mean() >= _RIGHT)
        along = image[image >= 0]
        steps = passes and 2 * np.count_nonzero(along[1:] != along[:-1]) < len(along)
    return Determined(b.name, a.name, image, counts, bool(steps)) if grouped or steps else None


def _passes(tested: np.ndarray, right: np.ndarray, rare: np.ndarray, *, twice: bool = False) -> np.ndarray:
    """Whether enough tested rows are right, in all and without the most frequent value: of arrays ``[n, ...]``."""
    rare = rare & tested
    count, rarely = tested.sum(0), rare.sum(0)
    wrong, rarely_wrong = (tested & ~right).sum(0), (rare & ~right).sum(0)
    slack = 2 if twice else 1
    return (
        (count >= LEAST_ROWS)
        & (rarely >= _LEAST_RARE)
        & (wrong <= slack * (1 - _RIGHT) * count)
        & (rarely_wrong <= slack * (1 - _RARE_RIGHT) * rarely)
    )


def _mode(codes: np.ndarray) -> int:
    counts = np.bincount(codes[codes >= 0], minlength=1)
    return int(counts.argmax())
