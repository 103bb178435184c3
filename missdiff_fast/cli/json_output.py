"""Results as one JSON object on stdout, for programs: the option ``--json`` of the commands."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from missdiff_fast._output import show
from missdiff_fast.cli.errors import UserError

if TYPE_CHECKING:
    import argparse

    import pandas as pd


def add_json(group: argparse._ActionsContainer, what: str) -> None:
    """Add the option; ``what`` is what it prints."""
    group.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def check_room(args: argparse.Namespace) -> None:
    """Refuse --json where a table goes to stdout too."""
    if args.json and (args.output is None or args.output.as_posix() in ("/dev/stdout", "/dev/fd/1")):
        raise UserError("--json prints to stdout, where the table would go too: write the table to a file, -o OUT")


def print_json(value: dict[str, Any]) -> None:
    """Print an object; NaN and infinities are null, and NumPy's numbers those of JSON."""
    show(json.dumps(_plain(value), ensure_ascii=False, indent=2, allow_nan=False))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as objects."""
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
