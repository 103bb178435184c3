"""Exact comparison of strings."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.arrays import ArrowExtensionArray

_PIECE = 65_536  # cells joined at a time


def factorize(series: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    r"""`pandas.factorize`, but exact for strings.

    Where all cells of a column are strings, pandas compares them as C strings, which end at the first NUL: "a" and
    "a\0b" become one. (A lone surrogate, which has no UTF-8 form, it compares by its repr.)

    Parameters
    ----------
    series : Series
        N cells.

    Returns
    -------
    codes, distinct : ndarray
        The index of each cell among the distinct ones, int64 ``[N]``, -1 where missing; and the distinct cells in order
        of appearance, ``[V]``, objects for a column of strings.

    Examples
    --------
    >>> codes, distinct = factorize(pd.Series(["a", "a\0", "a"]))
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], ['a', 'a\x00'])
    """
    codes, found = pd.factorize(series)
    distinct = np.asarray(found)
    is_text = series.dtype == np.dtype(object) or isinstance(series.dtype, pd.StringDtype)
    if is_text and not isinstance(series.array, ArrowExtensionArray):
        cells = series.to_numpy(dtype=object)
        if not _are_c_strings(cells[codes >= 0] if (codes < 0).any() else cells):
            # With a None among the cells pandas compares the objects themselves, which takes twice the time.
            objects = np.empty(len(cells) + 1, dtype=object)
            objects[:-1] = np.where(codes < 0, objects[:-1], cells)
            codes, distinct = pd.factorize(objects)
            codes = codes[:-1]
    return codes, distinct


def _are_c_strings(cells: np.ndarray) -> bool:
    """Whether pandas distinguishes all strings among the cells."""
    for start in range(0, len(cells), _PIECE):
        try:
            text = "".join(cells[start : start + _PIECE].tolist())
        except TypeError:  # not all are strings, so pandas compares objects
            return True
        if "\0" in text or not (text.isascii() or _has_utf8(text)):
            return False
    return True


def _has_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
