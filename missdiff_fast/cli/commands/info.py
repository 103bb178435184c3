"""``missdiff info``: show versions, build and devices, or describe a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast import __version__
from missdiff_fast._output import show

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from missdiff_fast.model import MissDiff

HELP = "show versions, build and devices, or describe a model"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="a file written by 'missdiff fit'")


def run(args: argparse.Namespace) -> None:
    """Print versions, build and devices, or a description of a model."""
    from missdiff_fast.cli.tables import check_stdout

    check_stdout()
    import torch

    from missdiff_fast.ops._library import build_info, without_cuda

    if args.model is None:
        devices = torch.cuda.device_count()
        facts = build_info() | {
            "version": __version__,
            "torch_threads": str(torch.get_num_threads()),
            "cuda_devices": str(devices),
        }
        if devices:
            facts["cuda_kernels"] = without_cuda(torch.device("cuda")) or "yes"
        _print_pairs({name.replace("_", " "): text for name, text in facts.items()})
        return
    from missdiff_fast.model import MissDiff

    model = MissDiff.load(args.model, device="cpu", backend="reference")
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
        | {f"chosen: {setting}": f"{value:,} ({reason})" for setting, value, reason in model.training_.to_numpy()}
    )
    show(f"\n{columns.to_string(index=False)}")
    relations = model.relations_
    if len(relations):
        relations["from"] = [", ".join(map(str, names)) for names in relations["from"]]
        show(f"\ncolumns that others determine:\n{relations.to_string(index=False)}")
    if len(model.rules_):
        rules = model.rules_[["rule", "kind", "rows", "broken"]]
        show(f"\nrules, and the training rows that break them:\n{rules.to_string(index=False, max_colwidth=None)}")


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
        dtype = "category" if isinstance(column.dtype, pd.CategoricalDtype) else str(column.dtype)
        rows.append((column.name, column.kind, dtype, known))
    return pd.DataFrame(rows, columns=["column", "kind", "dtype", "categories"])


def _print_pairs(pairs: dict[str, str]) -> None:
    width = max(len(name) for name in pairs)
    for name, text in pairs.items():
        show(f"{name:<{width}}  {text}")
