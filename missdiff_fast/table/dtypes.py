"""pandas dtypes: the family of their cells, their form in JSON, and columns made from plain arrays.

The cells of a column have a *family*: ``integer``, ``float``, ``boolean``, ``string``, ``datetime`` (no zone),
``zoned`` (datetime with a zone), ``date`` or ``timedelta``. Cells of one family are held as plain arrays, called keys:
int64 (uint64 for unsigned integers of 64 bits), float64 or float32, and objects for strings. Dates and times are counts
of their unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray
from pandas.api.types import pandas_dtype
from pandas.arrays import NumpyExtensionArray

Dtype = Any  # numpy.dtype or pandas ExtensionDtype: pandas has no common class for them

NUMBERS = frozenset({"integer", "float"})
INSTANTS = frozenset({"datetime", "zoned", "date", "timedelta"})
_MOST_PIECES = 100
_KINDS = {"i": "integer", "u": "integer", "f": "float", "b": "boolean", "M": "datetime", "m": "timedelta"}


def family_of(dtype: Dtype) -> str:
    """The family of a dtype's cells; ``object`` or ``category`` where the dtype alone does not tell; else ``""``.

    >>> family_of(pd.Int64Dtype()), family_of(np.dtype("float32")), family_of(np.dtype("complex64"))
    ('integer', 'float', '')
    """
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_family(dtype.pyarrow_dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if isinstance(dtype, pd.StringDtype):
        return "string"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "zoned"
    if isinstance(dtype, (pd.SparseDtype, pd.PeriodDtype, pd.IntervalDtype)):
        return ""
    if dtype == np.dtype(object):
        return "object"
    if not isinstance(dtype, np.dtype) and type(dtype).__module__ != type(pd.Int64Dtype()).__module__:
        known = (pd.BooleanDtype, pd.Float32Dtype, pd.Float64Dtype)
        if not isinstance(dtype, known):
            return ""
    return _KINDS.get(dtype.kind, "") if dtype.itemsize <= 8 else ""


def holds_text(dtype: Dtype) -> bool:
    """Whether a column of this dtype, as the reader makes it, may hold strings."""
    return bool(dtype == np.dtype(object)) or family_of(dtype) == "string"


def text_dtype() -> Dtype:
    """The dtype that pandas gives a column of strings: object before pandas 3, a dtype of strings since.

    >>> pd.Series(["a", None]).dtype == text_dtype()
    True
    """
    return pd.Series([""]).dtype


def _arrow_family(kind: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(kind):
        return "zoned" if kind.tz else "datetime"
    tests = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "boolean": types.is_boolean,
        "date": types.is_date32,
        "timedelta": types.is_duration,
    }
    if types.is_string(kind) or types.is_large_string(kind):
        return "string"
    return next((name for name, test in tests.items() if test(kind)), "")


def unit_of(dtype: Dtype, family: str) -> str:
    """The unit of dates and times: of the dtype, else days for dates and microseconds for Python's datetimes."""
    if isinstance(dtype, pd.CategoricalDtype):
        return unit_of(dtype.categories.dtype, family)
    if family == "date":
        return "s"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return dtype.unit
    if isinstance(dtype, pd.ArrowDtype):
        return str(dtype.pyarrow_dtype.unit)
    return str(np.datetime_data(dtype)[0]) if isinstance(dtype, np.dtype) and dtype.kind in "mM" else "us"


def zone_of(dtype: Dtype) -> tzinfo | None:
    """The time zone of a dtype; None if it has none."""
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_timestamp(dtype.pyarrow_dtype) and dtype.pyarrow_dtype.tz:
        dtype = pd.DatetimeTZDtype("ns", dtype.pyarrow_dtype.tz)
    return dtype.tz if isinstance(dtype, pd.DatetimeTZDtype) else None


def with_plain_zone(dtype: Dtype) -> Dtype:
    """The dtype with Python's own zone for one of a fixed offset from UTC, whose name in other libraries can't be read.

    >>> from dateutil.tz import tzoffset
    >>> with_plain_zone(pd.DatetimeTZDtype("ns", tzoffset(None, 3600)))
    datetime64[ns, UTC+01:00]
    """
    zone: Any = dtype.tz if isinstance(dtype, pd.DatetimeTZDtype) else None
    if zone is None or isinstance(zone, timezone) or str(zone) == "UTC":
        return dtype
    offset = zone.utcoffset(None)
    return dtype if offset is None else pd.DatetimeTZDtype(dtype.unit, timezone(offset))


def key_dtype(dtype: Dtype, family: str) -> np.dtype:
    """The numpy dtype of a column's keys."""
    if isinstance(dtype, pd.CategoricalDtype):
        return key_dtype(dtype.categories.dtype, family)
    if family == "string":
        return np.dtype(object)
    if family not in NUMBERS:
        return np.dtype(np.int64)
    if isinstance(dtype, pd.ArrowDtype):
        dtype = np.dtype(dtype.pyarrow_dtype.to_pandas_dtype())
    plain = dtype == np.dtype(object)
    if family == "float":
        return np.dtype(np.float64 if plain or dtype.itemsize > 4 else np.float32)
    unsigned = family == "integer" and not plain and dtype.kind == "u" and dtype.itemsize == 8
    return np.dtype(np.uint64 if unsigned else np.int64)


def to_keys(series: pd.Series, family: str, missing: np.ndarray | None = None, unit: str | None = None) -> np.ndarray:
    """The keys of a column's cells ``[N]``; anything where missing."""
    missing = series.isna().to_numpy(dtype=bool) if missing is None else missing
    dtype: Dtype = series.dtype
    target = key_dtype(dtype, family)
    if family in INSTANTS:
        return _instants(series, family, missing, unit or unit_of(dtype, family))
    if family == "string":
        return series.to_numpy(dtype=object)
    if dtype == np.dtype(object):
        keys = np.zeros(len(series), dtype=target)
        keys[~missing] = series.to_numpy()[~missing].astype(bool if family == "boolean" else target)
        return keys
    if family == "boolean":
        return series.to_numpy(dtype=bool, na_value=False).astype(target)
    if isinstance(dtype, np.dtype):
        return series.to_numpy().astype(target, copy=False)
    return series.to_numpy(dtype=target, na_value=np.nan if family == "float" else 0)


def _instants(series: pd.Series, family: str, missing: np.ndarray, unit: str) -> np.ndarray:
    kind = "timedelta64" if family == "timedelta" else "datetime64"
    target: Dtype = None
    if series.dtype == np.dtype(object):
        series = series.where(~missing, None)
        target = f"{kind}[{'s' if family == 'date' else 'us'}]"
    elif isinstance(series.dtype, pd.ArrowDtype):
        if family == "date":
            series = series.astype("timestamp[s][pyarrow]")
        target = f"{kind}[{unit_of(series.dtype, 'timedelta')}{', UTC' if family == 'zoned' else ''}]"
    if target is not None:
        series = series.astype(target)
    times = pd.TimedeltaIndex(series) if family == "timedelta" else pd.DatetimeIndex(series)
    return np.asarray(times.as_unit(unit).asi8)


def restore(keys: np.ndarray, dtype: Dtype, family: str) -> ExtensionArray:
    """The pandas array of a dtype whose cells are these keys, none of them missing.

    >>> restore(np.array([1, 0]), pd.BooleanDtype(), "boolean")
    <BooleanArray>
    [True, False]
    Length: 2, dtype: boolean
    """
    if isinstance(dtype, pd.CategoricalDtype):
        kind = dtype.categories.dtype  # which pandas 3 would infer anew, and for objects otherwise
        return pd.Categorical(pd.Index(restore(keys, kind, family), dtype=kind), dtype=dtype)
    if family in INSTANTS:
        return _restore_instants(keys, dtype, family)
    if family == "boolean":
        keys = keys.astype(bool)
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(pa.array(keys).cast(dtype.pyarrow_dtype))
    return pd.Series(keys.astype(object) if dtype == np.dtype(object) else keys, dtype=dtype).array


def _restore_instants(keys: np.ndarray, dtype: Dtype, family: str) -> ExtensionArray:
    unit = unit_of(dtype, family)
    times = pd.Series(keys.view(f"{'m' if family == 'timedelta' else 'M'}8[{unit}]"))
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(pa.array(times.to_numpy()).cast(dtype.pyarrow_dtype))
    if isinstance(dtype, pd.DatetimeTZDtype):
        return times.dt.tz_localize("UTC").dt.tz_convert(dtype.tz).array
    if dtype != np.dtype(object):
        return times.astype(dtype).array
    if family == "date":
        return pd.Series(times.dt.date, dtype=object).array
    return times.astype(object).array


def as_series(array: ExtensionArray, index: pd.Index | None = None) -> pd.Series:
    """A Series over an array as it is: pandas does not infer a dtype from object cells."""
    if type(array) is NumpyExtensionArray:  # its subclasses have dtypes of their own
        values = np.asarray(array)  # to_numpy looks for missing cells first
        return pd.Series(values, index=index, dtype=values.dtype, copy=False)
    return pd.Series(array, index=index, copy=False)


def as_frame(columns: dict[Any, pd.Series], index: pd.Index) -> pd.DataFrame:
    """A frame that takes over the columns: they are not copied unless there are many.

    pandas warns of a frame of more than a hundred pieces once a column is added to it.
    """
    return pd.DataFrame(columns, index=index, copy=len(columns) > _MOST_PIECES)


def with_columns(frame: pd.DataFrame, columns: Mapping[Any, pd.Series]) -> pd.DataFrame:
    """The frame with other cells in columns that it has; it is not written to.

    >>> frame = pd.DataFrame({"x": [1], "y": [2]}).rename_axis(columns="name")
    >>> with_columns(frame, {"x": pd.Series(["a"])}).to_dict("list"), frame["x"].tolist()
    ({'x': ['a'], 'y': [2]}, [1])
    """
    if not columns:
        return frame
    changed = as_frame({**dict(frame.items()), **columns}, frame.index)
    changed.columns, changed.attrs = frame.columns, frame.attrs
    return changed


def dtype_to_json(dtype: Dtype) -> dict[str, Any]:
    """A dtype as JSON, read back by `dtype_from_json`; TypeError if JSON cannot express it.

    >>> dtype_to_json(pd.CategoricalDtype(["a", "b"], ordered=True))["ordered"]
    True
    """
    meta: dict[str, Any]
    if isinstance(dtype, pd.ArrowDtype):
        meta = {"arrow": str(dtype.pyarrow_dtype)}
    elif isinstance(dtype, pd.StringDtype):
        meta = {"string": dtype.storage, "na": "NA" if dtype.na_value is pd.NA else "NaN"}
    elif isinstance(dtype, pd.CategoricalDtype):
        family = family_of(dtype.categories.dtype)
        if family == "object":
            strange = next((cell for cell in dtype.categories if not isinstance(cell, str)), None)
            if strange is not None:
                kind = type(strange).__name__
                raise TypeError(f"categories that are Python objects of type {kind} can't be stored")
            family = "string"
        meta = {
            "category": dtype_to_json(dtype.categories.dtype),
            "ordered": bool(dtype.ordered),
            "family": family,
            "values": to_keys(pd.Series(dtype.categories), family).tolist(),
        }
    elif isinstance(zone := zone_of(dtype), ZoneInfo):
        meta = {"unit": dtype.unit, "zone": zone.key}  # by its name alone, pandas may take another library's zone
    else:
        meta = {"dtype": str(dtype)}
    try:
        same = dtype_from_json(meta) == dtype
    except (TypeError, ValueError, NotImplementedError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        same = False
    if not same:
        raise TypeError(f"dtype {dtype} can't be stored by name")
    return meta


def dtype_from_json(meta: dict[str, Any]) -> Dtype:
    """The dtype that `dtype_to_json` wrote; ValueError, TypeError or KeyError if the data are not valid."""
    if "arrow" in meta:
        name = meta["arrow"]
        return (
            pd.ArrowDtype(pa.string()) if name == "string" else pd.ArrowDtype.construct_from_string(f"{name}[pyarrow]")
        )
    if "string" in meta:
        # pandas-stubs knows no na_value, which pandas has had since 2.3.
        kwargs: dict[str, Any] = {} if meta["na"] == "NA" else {"na_value": np.nan}
        return pd.StringDtype(meta["string"], **kwargs)
    if "category" in meta:
        inner, family = dtype_from_json(meta["category"]), meta["family"]
        keys = np.array(meta["values"], dtype=key_dtype(inner, family))
        return pd.CategoricalDtype(pd.Index(restore(keys, inner, family), dtype=inner), ordered=meta["ordered"])
    if "zone" in meta:
        return pd.DatetimeTZDtype(meta["unit"], ZoneInfo(meta["zone"]))
    return _dtype_named(meta["dtype"])


@lru_cache
def _dtype_named(name: str) -> Dtype:
    return pandas_dtype(name)
