"""Metadata of SDV, the Synthetic Data Vault: read as treatments of a fit, and written for a fitted model.

The specifications ``SINGLE_TABLE_V1`` and ``V1`` (of several tables) are read, and the keys of later ones that say the
same; ``SINGLE_TABLE_V1`` is written. SDV itself is not needed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError
from missdiff_fast.model import MissDiff
from missdiff_fast.remedies import Do
from missdiff_fast.table.aside import Aside
from missdiff_fast.table.schema import Column

__all__ = ["metadata_of", "read_metadata"]

_TREATMENTS = {"numerical": "continuous", "categorical": "categorical", "ordinal": "categorical"}
_TREATMENTS |= {"boolean": "categorical", "id": "identifier"}
_UNSET = ("datetime", "unknown")  # their cells tell
_TIMES = ("date", "datetime", "zoned")


def read_metadata(source: str | os.PathLike[str] | Mapping[str, Any], table: str | None = None) -> dict[str, str]:
    """The treatments that a table's metadata means, for ``MissDiff(treatments=...)``.

    A numerical column is continuous; a categorical, ordinal or boolean one categorical; an ``id``, and whatever is a
    primary, alternate or sequence key, an identifier: synthetic rows have fresh ones. A column of personal data
    (``email``, ``first_name``, ... or ``unknown``), unless it says ``"pii": false``, is text: synthetic rows lack it.
    A ``datetime``, and what is ``unknown`` and not personal, is as its cells show.

    Parameters
    ----------
    source : str, path or mapping
        A JSON file, or its content.
    table : str, optional
        Which table, where the metadata are of several.

    Returns
    -------
    dict
        Column to treatment.

    Raises
    ------
    ValueError
        The source is no metadata of SDV, or of several tables of which ``table`` is none.

    Examples
    --------
    >>> read_metadata(
    ...     {
    ...         "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    ...         "primary_key": "case",
    ...         "columns": {
    ...             "case": {"sdtype": "id"},
    ...             "age": {"sdtype": "numerical"},
    ...             "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
    ...             "name": {"sdtype": "first_name", "pii": True},
    ...         },
    ...     }
    ... )
    {'case': 'identifier', 'age': 'continuous', 'name': 'text'}
    """
    metadata = _one_table(_content(source), table)
    keys: set[str] = set()
    for name in ("primary_key", "sequence_key", "alternate_keys"):
        keys |= _names(metadata.get(name))
    found = {}
    for name, entry in metadata["columns"].items():
        treatment = "identifier" if name in keys else _treatment(name, entry)
        if treatment:
            found[name] = treatment
    return found


def metadata_of(model: MissDiff) -> dict[str, Any]:
    """The metadata of the table that a model was fitted to, as ``SINGLE_TABLE_V1``.

    An identifier without repetition is the primary key. Free text is ``unknown`` and personal; durations, for which SDV
    has no type, and columns without cells are ``unknown``. Numbers with limits such as ``<0.1`` are ``categorical``.

    Parameters
    ----------
    model : MissDiff
        Fitted.

    Returns
    -------
    dict
        Write it with `json.dump`.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1, 2, 3, 4] * 9, "sex": ["f", "m", None, "m"] * 9})
    >>> metadata_of(MissDiff(steps=2, refine=0, random_state=0).fit(table))["columns"]
    {'x': {'sdtype': 'numerical', 'computer_representation': 'Int64'}, 'sex': {'sdtype': 'categorical'}}
    """
    columns: dict[str, dict[str, Any]] = {}
    key = None
    for name in model.columns_:
        aside = model.asides_.found.get(name)
        if aside is None:
            columns[str(name)] = _learnt(model.codec_.schema[name])
            continue
        columns[str(name)] = _aside(aside)
        if key is None and aside.kind == "identifier" and aside.distinct:
            key = str(name)
    metadata: dict[str, Any] = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns}
    return metadata if key is None else {**metadata, "primary_key": key}


def _content(source: str | os.PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    try:
        content = json.loads(Path(source).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{source} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{source} holds no metadata of SDV: it must be an object")
    return content


def _one_table(content: Mapping[str, Any], table: str | None) -> Mapping[str, Any]:
    """The metadata of one table."""
    tables = content.get("tables")
    if isinstance(tables, Mapping):
        if table is None and len(tables) == 1:
            table = next(iter(tables))
        if table not in tables:
            problem = f"the metadata are of the tables {', '.join(map(repr, tables))}, not of {table!r}"
            raise DataError("metadata", problem, value=table, remedy=Do("give the metadata of one table"))
        content = tables[table]
    columns = content.get("columns")
    if not isinstance(columns, Mapping) or not all(isinstance(one, Mapping) for one in columns.values()):
        raise ValueError('these are no metadata of SDV: there is no object "columns" with an object for each column')
    return content


def _names(value: object) -> set[str]:
    """The columns of a key, of a composite one, or of several."""
    if isinstance(value, str):
        return {value}
    return set().union(*map(_names, value)) if isinstance(value, (list, tuple)) else set()


def _treatment(name: str, entry: Mapping[str, Any]) -> str:
    """The treatment of a column; "" where its cells tell."""
    kind = entry.get("sdtype")
    if not isinstance(kind, str):
        problem = f"column {name!r} of the metadata has no sdtype"
        raise DataError("metadata", problem, columns=[name], remedy=Do("give it one, such as categorical"))
    if kind in _TREATMENTS:
        return _TREATMENTS[kind]
    if kind == "datetime":
        return ""
    if entry.get("pii", True):
        return "text"
    return "" if kind in _UNSET else "categorical"


def _aside(aside: Aside) -> dict[str, Any]:
    if aside.kind == "identifier":
        return {"sdtype": "id"}
    return {"sdtype": "unknown", "pii": aside.kind == "text"}


def _learnt(column: Column) -> dict[str, Any]:
    with_limits = column.censored is not None  # texts, of which some are no numbers
    if column.kind == "categorical" or with_limits or column.family in ("boolean", "string"):
        dtype = column.dtype
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
            return {"sdtype": "categorical", "order": [_plain(one) for one in dtype.categories]}
        return {"sdtype": "boolean" if column.family == "boolean" else "categorical"}
    if column.family in _TIMES:
        return {"sdtype": "datetime"} | ({"datetime_format": _format(column.form)} if column.form else {})
    if column.family == "timedelta":
        return {"sdtype": "unknown", "pii": False}
    return {"sdtype": "numerical", "computer_representation": _representation(column)}


def _representation(column: Column) -> str:
    """The type of numbers in SDV's words, such as Int16 or Float."""
    if column.family == "float":
        return "Float"
    kind = column.dtype
    if isinstance(kind, pd.ArrowDtype):
        kind = np.dtype(kind.pyarrow_dtype.to_pandas_dtype())
    width = re.fullmatch(r"(u?)int(\d+)", str(kind).lower())
    return f"{width[1].upper()}Int{width[2]}" if width else "Int64"


def _format(form: str) -> str:
    """The form of a column's dates in the letters of strftime.

    >>> _format("0000-00-00T00:00:00.000Z"), _format("0000-00-00 00:00+00:00")
    ('%Y-%m-%dT%H:%M:%S.%fZ', '%Y-%m-%d %H:%M%z')
    """
    written = form.replace("0000-00-00", "%Y-%m-%d", 1)
    for pattern, letters in ((r"[+]00(:?00)?$", "%z"), (r"\.0+", ".%f"), (r":00:00", ":%M:%S"), (r":00", ":%M")):
        written = re.sub(pattern, letters, written, count=1)
    return re.sub(r"(?<=[T ])00", "%H", written)


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, int, float, str)) else str(value)
