"""Numbers so far beyond all others of their column that they are probably mistyped."""

from __future__ import annotations

import numpy as np

_SHARE = 0.01  # of the cells, at either end of the column, that may be outliers
_GAP = 3  # times the range of all other values, between them and an outlier
_FEWEST = 20  # cells from which a column is looked at


def usual_values(distinct: np.ndarray, counts: np.ndarray) -> slice:
    """The values that are no outliers, told by the gaps between neighbours.

    The values in the middle are usual. Towards either end, the next value is usual too unless it lies further away than
    `_GAP` times the range of those found so far. At most `_SHARE` of the cells at either end, or one cell, are
    outliers. Cells with the most frequent value do not count: of a column that is mostly 0, the others are not
    outliers.

    Parameters
    ----------
    distinct : ndarray
        Distinct values, ascending, float64 ``[V]``, V >= 2.
    counts : ndarray
        The number of cells that have each, integers ``[V]``.

    Returns
    -------
    slice
        Of the distinct values; all of them where none is an outlier.

    Examples
    --------
    >>> pressures = np.append(np.arange(60.0, 180.0), 12080.0)
    >>> usual_values(pressures, np.ones(121, dtype=np.int64))
    slice(0, 120, None)
    """
    V = len(distinct)
    cells = int(counts.sum() - counts.max())
    if cells < _FEWEST:
        return slice(0, V)
    most = max(1, int(_SHARE * cells))
    first = int(np.searchsorted(np.cumsum(counts), most, side="right"))
    last = V - 1 - int(np.searchsorted(np.cumsum(counts[::-1]), most, side="right"))
    with np.errstate(over="ignore"):
        reach = _GAP * (distinct[last] - distinct[first])
    # A gap that is small beside the middle's range is small beside a wider range, too.
    wide = np.flatnonzero(np.diff(distinct) > reach)
    below, above = wide[wide < first], wide[wide >= last]
    first = int(below[-1]) + 1 if len(below) else 0
    last = int(above[0]) if len(above) else V - 1
    while first > 0 or last < V - 1:
        gaps = (
            distinct[first] - distinct[first - 1] if first > 0 else np.inf,
            distinct[last + 1] - distinct[last] if last < V - 1 else np.inf,
        )
        if min(gaps) / _GAP > distinct[last] - distinct[first]:
            break
        if gaps[0] <= gaps[1]:
            below = below[below < first - 1]
            first = int(below[-1]) + 1 if len(below) else 0
        else:
            above = above[above > last]
            last = int(above[0]) if len(above) else V - 1
    return slice(first, last + 1)
