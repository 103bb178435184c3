"""The state of a codec as JSON and tensors, as a model file holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from missdiff_fast.table.cells import Markers
from missdiff_fast.table.censored import Censored
from missdiff_fast.table.columns import MAX_VALUES, Categorical, Coder, Constant, Continuous
from missdiff_fast.table.dtypes import INSTANTS, Dtype, dtype_from_json, dtype_to_json, key_dtype
from missdiff_fast.table.relations import Determined, Numeric, Relation
from missdiff_fast.table.resolution import Resolution
from missdiff_fast.table.schema import Column, Name, Schema

FORMAT = "missdiff_fast table codec"
VERSION = 1
_KINDS: dict[str, type[Coder]] = {"constant": Constant, "categorical": Categorical, "continuous": Continuous}
_FAMILIES = INSTANTS | {"integer", "float", "boolean", "string"}


def write_state(
    schema: Schema, coders: Mapping[Name, Coder], markers: Markers, relations: Sequence[Relation] = ()
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """JSON for everything but the value tables of continuous columns and of relations, which are tensors."""
    tensors: dict[str, Tensor] = {}
    columns = []
    for position, column in enumerate(schema):
        coder = coders[column.name]
        entry: dict[str, Any] = {
            "name": column.name,
            "kind": column.kind,
            "dtype": dtype_to_json(column.dtype),
            "family": column.family,
            "parsed": column.parsed,
        }
        if column.form:
            entry["form"] = column.form
        if column.censored is not None:
            entry["censored"] = column.censored.state()
        if isinstance(coder, Continuous):
            entry |= _write_continuous(coder, f"columns.{position}", tensors)
        else:
            entry["keys"] = coder.keys.tolist()
        columns.append(entry)
    # NumPy's isfinite takes no integers beyond 64 bits.
    numbers = [n if isinstance(n, int) or np.isfinite(n) else str(n) for n in markers.numbers]
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "missing_values": {"strings": list(markers.strings), "numbers": numbers},
        "columns": columns,
    }
    if relations:
        meta["relations"] = [_write_relation(one, f"relations.{i}", tensors) for i, one in enumerate(relations)]
    return meta, tensors


def read_state(meta: Any, tensors: Mapping[str, Tensor]) -> tuple[Schema, list[Coder], Markers, list[Relation]]:
    """Read what `write_state` wrote; ValueError if it is damaged or of another format or version."""
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ValueError("not the state of a table codec")
    if meta.get("version") != VERSION:
        raise ValueError(
            f"codec state has version {meta.get('version')!r}, this release reads {VERSION}: fit again, or "
            "use the release that wrote it"
        )
    try:
        markers = Markers(
            tuple(str(text) for text in meta["missing_values"]["strings"]),
            tuple(float(n) if isinstance(n, str) else n for n in meta["missing_values"]["numbers"]),
        )
        read = [_read_column(position, entry, tensors) for position, entry in enumerate(meta["columns"])]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"codec state is damaged: {type(error).__name__}: {error}") from error
    schema, coders = Schema(tuple(column for column, _ in read)), [coder for _, coder in read]
    if not read or len(set(schema.names)) < len(read):
        raise ValueError("codec state is damaged: no columns, or names that come twice")
    named = dict(zip(schema.names, coders, strict=True))
    try:
        entries = enumerate(meta.get("relations", []))
        relations = [_read_relation(entry, f"relations.{i}", named, tensors) for i, entry in entries]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"codec state is damaged: {type(error).__name__}: {error}") from error
    return schema, coders, markers, relations


def _read_column(position: int, entry: dict[str, Any], tensors: Mapping[str, Tensor]) -> tuple[Column, Coder]:
    name, kind, family = entry["name"], entry["kind"], entry["family"]
    _require(isinstance(name, (str, int)) and not isinstance(name, bool), f"a column is named {name!r}")
    _require(kind in _KINDS, f"column {name!r} is of kind {kind!r}")
    _require(family in _FAMILIES, f"column {name!r} is of family {family!r}")
    dtype = dtype_from_json(entry["dtype"])
    censored = Censored.from_state(entry["censored"]) if "censored" in entry else None
    _require(censored is None or (family, dtype) == ("float", np.float64), f"column {name!r} is no column of floats")
    column = Column(name, kind, dtype, family, bool(entry["parsed"]), str(entry.get("form", "")), censored)
    if kind != "continuous":
        keys = np.array(entry["keys"], dtype=key_dtype(dtype, family))
        _require(
            keys.ndim == 1 and (len(keys) == 1) == (kind == "constant"), f"column {name!r} has {keys.shape} values"
        )
        return column, Constant(dtype, family, keys) if kind == "constant" else Categorical(dtype, family, keys)
    coder = _read_continuous(entry, f"columns.{position}", dtype, family, f"column {name!r}", tensors)
    return column, replace(coder, censored=censored)


def _write_continuous(coder: Continuous, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    tensors[f"{prefix}.keys"] = torch.from_numpy(_signed(coder.keys).copy())
    tensors[f"{prefix}.cumulative"] = torch.from_numpy(coder.cumulative.copy())
    tensors[f"{prefix}.boundaries"] = torch.from_numpy(coder.boundaries.copy())
    return {"count": coder.count, "resolution": asdict(coder.resolution)}


def _read_continuous(
    entry: dict[str, Any], prefix: str, dtype: Dtype, family: str, what: str, tensors: Mapping[str, Tensor]
) -> Continuous:
    keys, cumulative, boundaries = (
        tensors[f"{prefix}.{part}"].cpu().numpy() for part in ("keys", "cumulative", "boundaries")
    )
    keys = keys.view(key_dtype(dtype, family))
    resolution = Resolution(**entry["resolution"])
    _require(
        2 <= len(keys) <= MAX_VALUES
        and cumulative.shape == keys.shape
        and boundaries.shape == (len(keys) - 1,)
        and cumulative.dtype == np.float64
        and boundaries.dtype == np.float32
        and bool((keys[1:] > keys[:-1]).all() and (boundaries[1:] > boundaries[:-1]).all())
        and bool((cumulative[1:] > cumulative[:-1]).all() and cumulative[0] > 0 and cumulative[-1] == 1)
        and isinstance(entry["count"], int)
        and resolution.sd > 0,
        f"the value table of {what} does not hold together",
    )
    return Continuous(dtype, family, keys, cumulative, boundaries, entry["count"], resolution)


def _write_relation(relation: Relation, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    entry: dict[str, Any] = {"column": relation.column, "sources": list(relation.sources)}
    if isinstance(relation, Determined):
        tensors[f"{prefix}.image"] = torch.from_numpy(relation.image.copy())
        tensors[f"{prefix}.counts"] = torch.from_numpy(relation.counts.copy())
        return entry | {"kind": "determined", "steps": relation.steps}
    entry |= {"kind": "numeric", "log": relation.log, "coefficients": list(relation.coefficients)}
    entry |= {"intercept": relation.intercept, "residual": None}
    if relation.residual is not None:
        entry["residual"] = _write_continuous(relation.residual, f"{prefix}.residual", tensors)
    return entry


def _read_relation(
    entry: dict[str, Any], prefix: str, coders: Mapping[Name, Coder], tensors: Mapping[str, Tensor]
) -> Relation:
    column, sources = entry["column"], tuple(entry["sources"])
    what = f"the relation of column {column!r}"
    vary = all(isinstance(coders[name], (Categorical, Continuous)) for name in (column, *sources))
    _require(len(sources) > 0 and vary, f"{what} does not hold together")
    if entry["kind"] == "determined":
        image, counts = (tensors[f"{prefix}.{part}"].cpu().numpy() for part in ("image", "counts"))
        shape = coders[sources[0]].keys.shape
        whole = image.shape == counts.shape == shape and int(image.max()) < len(coders[column].keys)
        _require(whole and len(sources) == 1, f"{what} does not hold together")
        return Determined(column, sources[0], image, counts, bool(entry["steps"]))
    coefficients = tuple(float(number) for number in entry["coefficients"])
    numeric = all(isinstance(coders[name], Continuous) for name in (column, *sources))
    _require(numeric and len(coefficients) == len(sources) and all(coefficients), f"{what} does not hold together")
    residual = entry["residual"]
    if residual is not None:
        residual = _read_continuous(
            residual, f"{prefix}.residual", np.dtype(np.float64), "float", f"{what}'s residual", tensors
        )
    return Numeric(column, sources, bool(entry["log"]), coefficients, float(entry["intercept"]), residual)


def _signed(keys: np.ndarray) -> np.ndarray:
    """uint64 as int64 of the same bits: not every tensor library has uint64."""
    return keys.view(np.int64) if keys.dtype == np.uint64 else keys


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
