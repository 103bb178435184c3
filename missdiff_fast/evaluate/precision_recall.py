"""Alpha-precision, beta-recall and authenticity: where synthetic rows lie among the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from missdiff_fast._frames import Frame
from missdiff_fast.evaluate._comparison import Cells, encode, make_features, mean, sample_alike
from missdiff_fast.evaluate._tables import require

if TYPE_CHECKING:
    from collections.abc import Sequence


_LEVELS = np.linspace(0, 1, 30)
_FARTHEST = 1e6


def precision_recall(
    real: Frame,
    synthetic: Frame,
    *,
    continuous: Sequence[str] | None = None,
    random_state: int = 0,
    max_rows: int | None = 20_000,
) -> dict[str, float]:
    """Alpha-precision, beta-recall and authenticity, as the papers on TabSyn and TabDiff report the first two.

    Rows are points: numbers mapped so that the real range becomes [0, 1], categories as indicators. As many rows of
    both tables are compared. A table with missing cells is divided at random into rows that are compared and as many
    that lend their holes to the compared rows of the other table; then missing numbers become the real mean, and
    missing cells of categories a category.

    Parameters
    ----------
    real, synthetic : DataFrame
        Tables with the same columns and two rows or more (four with missing cells).
    continuous : sequence of str, optional
        The columns taken as numbers; dates and durations always are. Default: all with a numeric dtype. The others are
        taken as categories.
    random_state : int
        Picks the rows.
    max_rows : int, optional
        The most rows of each table that are compared, picked at random; None compares all. Time grows with their
        square.

    Returns
    -------
    dict
        Shares. ``alpha_precision``: 1 - the mean of abs(alpha - P), over the mean alpha, of 30 levels alpha from 0 to
        1; P is the share of synthetic rows in the ball around the real mean that holds a share alpha of the real rows.
        1 is best. ``beta_recall``: likewise with the share of real rows that have a synthetic row as near as the
        nearest other real row or nearer, and whose nearest synthetic row is among the beta nearest to the synthetic
        mean. Two samples of one distribution have about 0.5, as either table has the nearest row by chance; copies of
        all real rows, if these differ from one another, have 1. Where rows repeat, balls hold more than their share,
        and both figures depend on the table: compare them with those of other real rows in place of synthetic
        rows. ``authenticity``: the share of synthetic rows whose nearest real row has another real row nearer to it;
        0 for copies.

    Raises
    ------
    ImportError
        Without scikit-learn.
    TypeError, ValueError
        As in `detection`.

    Notes
    -----
    The first two are "naive" `AlphaPrecision` of synthcity, without its one-class network, with these differences.
    Synthcity refuses a negative result; here it is 0 at least. There the indicator of the last category of the last
    column has no part (it is taken for the target). Here distances of equal rows are exactly 0; only the 100 most
    frequent categories of both tables together have an indicator of their own, and the rest of them one; categories
    that the synthetic table alone has are not refused. Its authenticity looks up the distances between real rows by the
    number of a synthetic row; here it is as the paper defines it.

    References
    ----------
    Alaa et al. (2022), How faithful is your synthetic data? Sample-level metrics for evaluating and auditing generative
    models, ICML.

    Examples
    --------
    >>> import pandas as pd
    >>> real = pd.DataFrame({"x": np.arange(500.0) ** 2, "y": ["a", "b"] * 250})
    >>> round(precision_recall(real, real)["beta_recall"], 2)
    1.0
    >>> precision_recall(real, real.assign(x=1e6))["alpha_precision"]
    0.0
    """
    cells = encode(real, synthetic, continuous)
    low, high = np.nanmin(cells[0].numbers, axis=0), np.nanmax(cells[0].numbers, axis=0)
    first, second = (Cells(_scaled(table.numbers, low, high), table.codes) for table in cells)
    fill = mean(first.numbers)
    alike = sample_alike(first, second, max_rows=max_rows, random_state=random_state, least=2)
    return _scores(*make_features(*alike, fill))


def _scaled(numbers: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    half_range = high / 2 - low / 2
    with np.errstate(over="ignore"):
        scaled = (numbers / 2 - low / 2) / np.where(half_range > 0, half_range, 0.5)
    return np.asarray(scaled.clip(-_FARTHEST, _FARTHEST))  # squares of far greater ones overflow


def _scores(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The figures of real points ``[N, F]`` and synthetic ones ``[N, F]``."""
    center = x.mean(axis=0)
    radii = np.quantile(_norm(x - center), _LEVELS)
    precision = (_norm(y - center)[:, None] <= radii).mean(axis=0)

    to_real = _nearest_other(x)
    nearest = _nearest(x, y)[:, 0]
    covered = _norm(x - y[nearest]) <= to_real
    distances = _norm(y[nearest] - y.mean(axis=0))
    recall = (covered[:, None] & (distances[:, None] <= np.quantile(distances, _LEVELS))).mean(axis=0)

    closest = _nearest(y, x)[:, 0]
    return {
        "alpha_precision": _agreement(precision),
        "beta_recall": _agreement(recall),
        "authenticity": float((_norm(y - x[closest]) > to_real[closest]).mean()),
    }


def _agreement(curve: np.ndarray) -> float:
    return max(0.0, float(1 - np.abs(_LEVELS - curve).sum() / _LEVELS.sum()))


def _nearest(points: np.ndarray, among: np.ndarray, count: int = 1) -> np.ndarray:
    """Row numbers of the nearest of other points, int64 ``[N, count]``."""
    search = require("sklearn.neighbors").NearestNeighbors(n_neighbors=count).fit(among)
    return np.asarray(search.kneighbors(points, return_distance=False))


def _nearest_other(x: np.ndarray) -> np.ndarray:
    """Distance of each point to the nearest other one, float64 ``[N]``."""
    # The two nearest are the point itself and the other one, or, among equal points, any two: the greater is right.
    # Distances are computed again, because the search's own are not exactly 0 between equal points.
    return np.max([_norm(x - x[found]) for found in _nearest(x, x, 2).T], axis=0)


def _norm(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).sum(axis=1))
