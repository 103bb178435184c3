"""Which columns identify rows, such as row or patient numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Drop
from missdiff_fast.table.columns import are_whole
from missdiff_fast.table.schema import Name

LEAST_COUNT = 100  # fewer numbers, or repeated identifiers, are never found
# Texts are found to differ in nearly every row from so many distinct ones on, if they are this share of the cells.
LEAST_TEXTS, TEXT_SHARE = 30, 0.9
REPEATED_SHARE = 0.05  # of distinct identifiers among the cells of a column named as those of patients are
_LONGEST, _WITH_DIGITS, _MOST_AMOUNTS = 64, 0.9, 0.5
_ONE_LENGTH = 0.2  # the share of identifiers that have the most frequent length; texts such as addresses have none
_DIGIT, _SPACE = re.compile(r"\d"), re.compile(r"\s")
# Numbers with a sign, decimals, thousands separators, a unit or a currency; two joined by a stroke or a colon, as blood
# pressures and titres.
_AMOUNT = re.compile(
    r"[<>]?=?[+-]?\d*([.,]\d+|\.)([eE][+-]?\d+)?|[<>]=?\d+|\d{1,3}/\d{1,3}|\d+:\d+"
    r"|[$€£] ?\d[\d.,]*|[+-]?\d+([.,]\d+)?[a-zA-Zµ%]{1,5}|[+-]?\d{1,3}([.,' ]\d{3})+[.,]\d+"
)
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))(\D.*)?|\d{1,2}:\d\d(:\d\d.*)?"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LAST = frozenset(("id", "ids", "identifier", "eid", "pid", "rid", "uid", "uuid", "guid", "mrn", "ssn", "sno", "seqn"))
_LAST |= {"subjid", "usubjid", "patid", "ptid", "patno", "empi"}
_PERSON = "patient|subject|participant|person"
_OWNER = (
    f"{_PERSON}|case|record|row|encounter|admission|visit|stay|sample|specimen|user|account|accession|claim|invoice"
)
_OWNER += "|hospital|insurance|nhs|chart|order|serial"
_NUMBERED = "no|nr|nbr|num|number|key|index|idx"
_WHOLE = re.compile(rf"({_OWNER})(id|{_NUMBERED})?|id({_PERSON})|(hadm|icustay)id|rownames?|{_NUMBERED}")
# Of these a row may have one that others have too: one patient has many rows.
_REPEATED = re.compile(
    rf"({_OWNER})(id|key)|({_PERSON}|case|nhs|insurance|hospital)(no|nr|nbr|num|number)|{_PERSON}|id({_PERSON})"
    r"|(hadm|icustay)id|u?subjid|patid|ptid|patno|empi|[epru]?id|uuid|guid|mrn|ssn|seqn"
)
# Numbers without a gap under such names are times.
_TIMES = frozenset(("year", "years", "month", "week", "day", "days", "hour", "minute", "second", "time", "date", "age"))


def is_identifier(name: Name, observed: np.ndarray, distinct: int) -> bool:
    """Whether numbers look like identifiers: whole, none negative, all distinct, and so named or without a gap.

    Those of a column that is named as the identifier of a patient, a case or the like may come again.

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
    >>> visits = np.repeat(np.arange(200) * 3, 4)
    >>> is_identifier("patient_nbr", visits, 200), is_identifier("diagnosis_id", visits, 200)
    (True, False)
    """
    if distinct < LEAST_COUNT or not are_whole(observed) or observed.min() < 0:
        return False
    if distinct < len(observed):
        return distinct >= REPEATED_SHARE * len(observed) and _names_owners(str(name))
    counted = observed.dtype.kind in "iu" and int(observed.max()) - int(observed.min()) == distinct - 1
    return (counted and not _TIMES.intersection(words(str(name)))) or _names_rows(str(name))


def are_identifiers(name: Name, texts: Sequence[str], observed: int) -> bool:
    """Whether texts look like identifiers: distinct in nearly every row or so named, short, with digits.

    Parameters
    ----------
    name : str or int
        The column's name.
    texts : sequence of str
        Its distinct texts.
    observed : int
        In how many cells.

    Examples
    --------
    >>> are_identifiers("code", [f"P{number:03}" for number in range(40)], 40)
    True
    >>> are_identifiers("seen", [f"2024-01-{day:02}" for day in range(40)], 40)  # dates
    False
    """
    if any(len(text) > _LONGEST for text in texts):
        return False
    if len(texts) >= max(LEAST_COUNT, REPEATED_SHARE * observed) and _names_owners(str(name)):
        return True
    if not differ(len(texts), observed) or any(_SPACE.search(text) for text in texts):
        return False
    if Counter(map(len, texts)).most_common(1)[0][1] < _ONE_LENGTH * len(texts):
        return False
    amounts = sum(_AMOUNT.fullmatch(text) is not None or looks_like_date(text) for text in texts)
    with_digits = sum(_DIGIT.search(text) is not None for text in texts)
    return amounts < _MOST_AMOUNTS * len(texts) and with_digits >= _WITH_DIGITS * len(texts)


def warn_of_identifiers(names: Sequence[Name]) -> None:
    """Warn of columns that look like identifiers and are learnt, at the line outside this package that called."""
    if not names:
        return
    each, several = ", ".join(map(repr, names)), len(names) > 1
    if several:
        problem = f"columns {each} look like identifiers: their values would stand in synthetic rows"
        remedy = Drop(tuple(names), what="them", when="if they are identifiers")
    else:
        problem = f"column {each} looks like an identifier: its values would stand in synthetic rows"
        remedy = Drop(tuple(names), what="it", when="if it is one")
    warning = DataWarning("identifier", problem, columns=names, remedy=remedy, joint="; ")
    warn(warning)


def looks_like_date(text: str) -> bool:
    """Whether a text may be a date or a time, in any order of day, month and year."""
    return _DATE.fullmatch(text.strip()) is not None


def differ(distinct: int, observed: int) -> bool:
    """Whether so many distinct texts mean that nearly every row has one of its own."""
    return distinct >= LEAST_TEXTS and distinct >= TEXT_SHARE * observed


def _names_rows(name: str) -> bool:
    found = words(name)
    return bool(found) and (found[-1] in _LAST or _WHOLE.fullmatch("".join(found)) is not None)


def _names_owners(name: str) -> bool:
    return _REPEATED.fullmatch("".join(words(name))) is not None


def words(name: str) -> list[str]:
    """The words of a column's name, in lower case.

    >>> words("patientID"), words("ICD_code2")
    (['patient', 'id'], ['icd', 'code'])
    """
    return [word.lower() for word in _WORD.findall(name)]
