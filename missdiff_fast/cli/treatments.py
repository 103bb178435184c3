"""A table and what its columns are, by the options of `missdiff_fast.cli.options.add_columns`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.tables import check_input, known, markers, read
from missdiff_fast.table.hints import warn_of_texts

if TYPE_CHECKING:
    import argparse

    import pandas as pd


def read_with_treatments(args: argparse.Namespace) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table without dropped columns, and the arguments of `missdiff_fast.MissDiff` that say what the others are."""
    missing_values, metadata = markers(args.missing_values), _metadata(args)
    treatments = metadata | dict(map(_treatment, args.treat))
    as_text = [name for name, treatment in treatments.items() if treatment == "text"]
    as_text += [name for name, treatment in metadata.items() if treatment == "identifier"]
    # Codes read as text keep leading zeros; dropped columns read as text cause no warnings.
    frame = read(args, missing_values, [*args.categorical, *as_text, *args.drop])
    dropped = known(args.drop, frame, "--drop")
    frame = frame.drop(columns=dropped)
    warn_of_texts(frame[[name for name in frame.columns if name in args.categorical]], args.data.name, marks=True)
    names: dict[str, Any] = {str(name): name for name in frame.columns}  # those of a Parquet file may be integers
    return frame, {
        "categorical_columns": args.categorical or None,
        "treatments": {names.get(name, name): one for name, one in treatments.items() if name not in dropped} or None,
        "missing_values": missing_values,
        "max_categories": args.max_categories,
    }


def _metadata(args: argparse.Namespace) -> dict[str, str]:
    """The treatments that --sdv-metadata means, without those that other options set."""
    if args.sdv_metadata is None:
        return {}
    from missdiff_fast.sdv import read_metadata

    check_input(args.sdv_metadata)
    found = read_metadata(args.sdv_metadata, args.data.stem)
    return {name: treatment for name, treatment in found.items() if name not in args.categorical}


def _treatment(text: str) -> tuple[str, str]:
    """Parse COL=TREATMENT; the column's name may hold "="."""
    name, found, treatment = text.rpartition("=")
    if not found:
        raise UserError(f"--treat {text!r}: write COL=TREATMENT, such as 'ward=categorical'")
    return name, treatment
