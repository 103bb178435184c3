"""The codec as one would write it with pandas, NumPy and SciPy, column by column.

For columns of numbers, booleans and strings it does what `missdiff_fast.table.Codec` does: normal scores of ranks, ties
spread over their interval; codes by `pd.Categorical`; standardised values; and back by look-ups. (Scikit-learn's
`QuantileTransformer` is no rival: it interpolates between a thousand quantiles, twice, puts all ties in one place, and
does not give back the values that were observed.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri


@dataclass(frozen=True)
class Numbers:
    """Values, ranks and boundaries of a continuous column."""

    values: np.ndarray  # distinct and ascending [V]
    ends: np.ndarray  # where the ranks of each value begin, as a share of all, and 1: [V + 1]
    boundaries: np.ndarray  # scores between values [V - 1]
    count: int
    mean: float
    sd: float
    decimals: int  # that explain every value; -1 if more than six

    @classmethod
    def fit(cls, column: pd.Series) -> Numbers:
        observed = column.dropna()
        values, counts = np.unique(observed.to_numpy(), return_counts=True)
        ends = np.append(0, counts.cumsum()) / len(observed)
        exact = (d for d in range(7) if (np.round(values, d) == values).all())
        boundaries = ndtri(ends[1:-1]).astype(np.float32)
        return cls(values, ends, boundaries, len(observed), observed.mean(), observed.std(ddof=0), next(exact, -1))

    def scores(self, column: np.ndarray, random: np.random.Generator | None) -> np.ndarray:
        observed = ~np.isnan(column)
        place = np.searchsorted(self.values, column[observed])
        if random is None:
            middles = ndtri((self.ends[:-1] + self.ends[1:]) / 2)
            scores = middles[place]
        else:
            u = self.ends[place] + np.diff(self.ends)[place] * random.random(len(place))
            scores = ndtri(np.clip(u, 0.5 / self.count, 1 - 0.5 / self.count))
        result = np.full(len(column), np.nan, dtype=np.float32)
        result[observed] = scores
        return result

    def rounded(self, standardised: np.ndarray) -> np.ndarray:
        raw = np.clip(standardised * self.sd + self.mean, self.values[0], self.values[-1])
        if self.values.dtype.kind in "iu":
            return np.rint(raw).astype(self.values.dtype)
        return raw if self.decimals < 0 else np.round(raw, self.decimals)


@dataclass(frozen=True)
class PandasCodec:
    """Frame to arrays and back: scores and values float32 ``[N, C]``, codes int16 ``[N, K]``."""

    names: list[str]
    numbers: dict[str, Numbers]
    categories: dict[str, pd.Index]

    @classmethod
    def fit(cls, frame: pd.DataFrame) -> PandasCodec:
        numbers, categories = {}, {}
        for name, column in frame.items():
            if column.dtype == object or column.dtype == bool:
                categories[name] = pd.Categorical(column).categories
                continue
            learnt = Numbers.fit(column)
            if len(learnt.values) == 2:
                categories[name] = pd.Index(learnt.values)
            else:
                numbers[name] = learnt
        return cls(list(frame), numbers, categories)

    def encode(self, frame: pd.DataFrame, seed: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scores = np.empty((len(frame), len(self.numbers)), dtype=np.float32)
        values, codes = np.empty_like(scores), np.empty((len(frame), len(self.categories)), dtype=np.int16)
        for c, (name, numbers) in enumerate(self.numbers.items()):
            column = frame[name].to_numpy()
            scores[:, c] = numbers.scores(column, None if seed is None else np.random.default_rng([seed, c]))
            values[:, c] = (column - numbers.mean) / numbers.sd
        for k, (name, categories) in enumerate(self.categories.items()):
            codes[:, k] = pd.Categorical(frame[name], categories=categories).codes
        return scores, values, codes

    def find(self, scores: np.ndarray) -> np.ndarray:
        """Where in its column's values each score leads: int32 ``[N, C]``."""
        bin_index = np.empty(scores.shape, dtype=np.int32)
        for c, numbers in enumerate(self.numbers.values()):
            bin_index[:, c] = np.searchsorted(numbers.boundaries, scores[:, c], side="right")
        return bin_index

    def decode(self, bin_index: np.ndarray, codes: np.ndarray) -> pd.DataFrame:
        columns = {name: numbers.values[bin_index[:, c]] for c, (name, numbers) in enumerate(self.numbers.items())}
        return self._frame(columns, codes)

    def decode_means(self, values: np.ndarray, codes: np.ndarray) -> pd.DataFrame:
        columns = {
            name: numbers.rounded(values[:, c].astype(np.float64))
            for c, (name, numbers) in enumerate(self.numbers.items())
        }
        return self._frame(columns, codes)

    def _frame(self, columns: dict[str, np.ndarray], codes: np.ndarray) -> pd.DataFrame:
        for k, (name, categories) in enumerate(self.categories.items()):
            columns[name] = categories.to_numpy()[codes[:, k]]
        return pd.DataFrame({name: columns[name] for name in self.names})


def fill(frame: pd.DataFrame, filled: pd.DataFrame) -> pd.DataFrame:
    """The frame with its missing cells taken from another."""
    return frame.fillna(filled)
