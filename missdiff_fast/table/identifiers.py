"""Warnings for columns that identify rows, such as row or patient numbers."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np

from missdiff_fast.errors import DataWarning
from missdiff_fast.remedies import Drop
from missdiff_fast.table.columns import are_whole
from missdiff_fast.table.schema import Name

LEAST_COUNT = 100  # fewer observed cells are never reported
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LAST = frozenset(("id", "ids", "identifier", "eid", "pid", "uid", "uuid", "guid", "mrn", "ssn", "sno", "seqn"))
_LAST |= {"key", "index", "idx", "no", "nr", "nbr", "num", "number"}
_OWNER = "patient|subject|participant|person|case|record|row|encounter|admission|visit|stay|sample|specimen|user"
_WHOLE = re.compile(rf"({_OWNER})(id|no|nr|nbr|num|number|key|index)?|(hadm|icustay)id|rownames?")


def is_identifier(name: Name, observed: np.ndarray, distinct: int) -> bool:
    """Whether numbers look like identifiers: whole, all distinct, and so named or (integers) without a gap.

    Parameters
    ----------
    name : str or int
        The column's name.
    observed : ndarray
        Its observed cells ``[n]``, numbers.
    distinct : int
        How many of them are distinct.

    Examples
    --------
    >>> is_identifier("hadm_id", np.arange(0, 1000, 7), 143), is_identifier("income", np.arange(0, 1000, 7), 143)
    (True, False)
    >>> is_identifier("line", np.arange(5, 148), 143), is_identifier("hadm_id", np.arange(50), 50)
    (True, False)
    """
    if distinct < max(LEAST_COUNT, len(observed)) or not are_whole(observed):
        return False
    counted = observed.dtype.kind in "iu" and int(observed.max()) - int(observed.min()) == distinct - 1
    return counted or _names_rows(str(name))


def warn_of_identifiers(names: list[Name]) -> None:
    """Warn of columns that look like identifiers, at the line outside this package that called fit."""
    if not names:
        return
    several = len(names) > 1
    problem = (
        f"column{'s' if several else ''} {', '.join(map(repr, names))} look{'' if several else 's'} like "
        f"{'identifiers' if several else 'an identifier'} (a different whole number in every row): "
        f"{'their' if several else 'its'} values, which are real ones, would stand in synthetic rows"
    )
    when = "if they are identifiers" if several else "if it is one"
    remedy = Drop(tuple(names), what="them" if several else "it", when=when)
    warning = DataWarning("identifier", problem, columns=names, remedy=remedy, joint="; ")
    warnings.warn(warning, stacklevel=_level_outside())


def _names_rows(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and (words[-1] in _LAST or _WHOLE.fullmatch("".join(words)) is not None)


def _level_outside() -> int:
    """The stack level, seen from the caller, of the first frame that is not the package's own."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "missdiff_fast":
        frame, level = frame.f_back, level + 1
    return level
