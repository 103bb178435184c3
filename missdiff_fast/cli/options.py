"""Options shared by several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

TABLES = "CSV (also compressed), Parquet or Feather, by the file name"


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that `missdiff_fast.cli.tables.read` needs."""
    group = parser.add_argument_group("reading DATA (by default detected from the file)")
    group.add_argument(
        "--missing-values",
        metavar="TEXT",
        action="append",
        default=[],
        help='a text that means "missing", such as "?" (repeatable)',
    )
    group.add_argument("--separator", metavar="CHAR", help="separator of a CSV file")
    group.add_argument("--decimal", metavar="CHAR", help="decimal mark of a CSV file")
    group.add_argument("--encoding", metavar="NAME", help="encoding of a CSV file")
    group.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="the first line of a CSV file is data; columns are named 0, 1, 2, ...",
    )
    group.add_argument("--skip-rows", metavar="N", type=int, default=0, help="lines to skip at the top of a CSV file")
    group.add_argument(
        "--skip-line",
        metavar="N",
        type=int,
        action="append",
        default=[],
        help="a line of a CSV file to leave out, such as 2 for units below the header (repeatable)",
    )


def add_device(group: argparse._ActionsContainer) -> None:
    """Add the options that choose the device and the backend."""
    group.add_argument("--device", default="auto", help="auto, cpu or cuda")
    group.add_argument(
        "--backend",
        default="auto",
        choices=("auto", "native", "reference"),
        help="compiled ops or plain PyTorch (reference)",
    )


def add_quiet(group: argparse._ActionsContainer) -> None:
    """Add the option that hides progress."""
    group.add_argument("--quiet", action="store_true", help="show no progress (it is shown only on a terminal)")
