"""``missdiff info``: show versions, build and devices, or describe a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdiff_fast import __version__
from missdiff_fast._output import show
from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.json_output import add_json, print_json, records

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from missdiff_fast.model import MissDiff

_SHOWN = 10  # limits of a column
HELP = "show versions, build and devices, or describe a model"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="a file written by 'missdiff fit'")
    parser.add_argument("--sdv-metadata", metavar="JSON", type=Path, help="also write the model's metadata for SDV")
    add_json(common, "it")


def run(args: argparse.Namespace) -> None:
    """Print versions, build and devices, or a description of a model."""
    from missdiff_fast.cli.tables import check_output, check_stdout

    check_stdout()
    import torch

    from missdiff_fast.ops._library import build_info, without_cuda

    if args.model is None:
        if args.sdv_metadata is not None:
            raise UserError("--sdv-metadata goes with a MODEL, whose metadata it writes")
        devices = torch.cuda.device_count()
        facts = build_info() | {
            "version": __version__,
            "torch_threads": str(torch.get_num_threads()),
            "cuda_devices": str(devices),
        }
        if devices:
            facts["cuda_kernels"] = without_cuda(torch.device("cuda")) or "yes"
        if args.json:
            print_json(facts)
            return
        _print_pairs({name.replace("_", " "): text for name, text in facts.items()})
        return
    from missdiff_fast.model import MissDiff

    if args.sdv_metadata is not None:
        check_output(args.sdv_metadata, args.model)
    model = MissDiff.load(args.model, device="cpu", backend="reference")
    if args.sdv_metadata is not None:
        _write_metadata(model, args.sdv_metadata)
    if args.json:
        print_json({"model": str(args.model), **describe(model)})
        return
    history, columns = model.history_, describe_columns(model)
    _print_pairs(
        {
            "model": str(args.model),
            "preset": model.preset,
            "seed of fit": str(model.seed_),
            "steps": f"{int(history['step'].max()):,}" if len(history) else "fewer than 50",
            "last loss": f"{history['loss'].iloc[-1]:.3f}" if len(history) else "unknown",
            "columns": str(len(columns)),
        }
        | ({} if model.dialect_ is None else {"text file": str(model.dialect_)})
        | {f"chosen: {setting}": f"{value:,} ({reason})" for setting, value, reason in model.training_.to_numpy()}
    )
    show(f"\n{columns.to_string(index=False)}")
    limits = describe_limits(model)
    if len(limits):
        show(f"\ncolumns of numbers with limits of measurement:\n{limits.to_string(index=False)}")
    relations = model.relations_
    if len(relations):
        relations["from"] = [", ".join(map(str, names)) for names in relations["from"]]
        show(f"\ncolumns that others determine:\n{relations.to_string(index=False)}")
    structural = model.codec_.structural.texts()
    if structural:
        show("\n".join(["", "holes that another column explains:", *structural]))
    if len(model.rules_):
        rules = model.rules_[["rule", "kind", "rows", "broken"]]
        show(f"\nrules, and the training rows that break them:\n{rules.to_string(index=False, max_colwidth=None)}")


def _write_metadata(model: MissDiff, path: Path) -> None:
    from missdiff_fast.sdv import metadata_of
    from missdiff_fast.table.atomic import write_atomically

    with write_atomically(path) as temporary:
        temporary.write_text(json.dumps(metadata_of(model), ensure_ascii=False, indent=4), encoding="utf-8")


def describe(model: MissDiff) -> dict[str, Any]:
    """The description of a fitted model, for JSON."""
    history, columns = model.history_, describe_columns(model)
    return {
        "preset": model.preset,
        "seed": model.seed_,
        "steps": history["step"].max() if len(history) else None,
        "last_loss": history["loss"].iloc[-1] if len(history) else None,
        "dialect": None if model.dialect_ is None else model.dialect_.state(),
        "columns": [{**one, "categories": one["categories"] or None} for one in records(columns)],
        "training": records(model.training_),
        "relations": records(model.relations_),
        "structural": records(model.structural_),
        "rules": records(model.rules_),
        "set_aside": records(model.set_aside_),
    }


def describe_columns(model: MissDiff) -> pd.DataFrame:
    """Table of a model's columns: ``column``, ``kind``, ``dtype`` and number of ``categories`` ("" for none)."""
    import pandas as pd

    rows: list[tuple[str | int, str, str, int | str]] = []
    for name in model.columns_:
        aside = model.asides_.found.get(name)
        if aside is not None:
            rows.append((name, aside.kind, str(aside.dtype), ""))
            continue
        column = model.codec_.schema[name]
        known = len(model.codec_.category_values(column.name)) if column.kind == "categorical" else ""
        own = column.dtype if column.censored is None else column.censored.dtype
        dtype = "category" if isinstance(own, pd.CategoricalDtype) else str(own)
        rows.append((column.name, column.kind, dtype, known))
    return pd.DataFrame(rows, columns=["column", "kind", "dtype", "categories"])


def describe_limits(model: MissDiff) -> pd.DataFrame:
    """Table of a model's columns of numbers with limits of measurement: ``column`` and ``limits``, their texts."""
    import pandas as pd

    found = {column.name: column.censored.limits for column in model.codec_.schema if column.censored is not None}
    rows = [(name, ", ".join(text for _, text in limits[:_SHOWN]), len(limits)) for name, limits in found.items()]
    shown = [(name, text + (f", ... ({count} in all)" if count > _SHOWN else "")) for name, text, count in rows]
    return pd.DataFrame(shown, columns=["column", "limits"])


def _print_pairs(pairs: dict[str, str]) -> None:
    width = max(len(name) for name in pairs)
    for name, text in pairs.items():
        show(f"{name:<{width}}  {text}")
