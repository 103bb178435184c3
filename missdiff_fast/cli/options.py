"""Options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

TABLES = "CSV (also compressed), Parquet or Feather, told by the name"


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add how a table is read, for `missdiff_fast.cli.tables.read`."""
    group = parser.add_argument_group("reading DATA (told from the file where not given)")
    group.add_argument(
        "--missing-values",
        metavar="TEXT",
        action="append",
        default=[],
        help='a mark for "missing", such as "?" (repeatable)',
    )
    group.add_argument("--separator", metavar="CHAR", help="between the cells of a CSV file")
    group.add_argument("--decimal", metavar="CHAR", help="decimal mark of a CSV file")
    group.add_argument("--encoding", metavar="NAME", help="of a CSV file")
    group.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="the first line of a CSV file is data: its columns are called 0, 1, 2, ...",
    )
    group.add_argument("--skip-rows", metavar="N", type=int, default=0, help="lines to leave out at its top")


def add_device(group: argparse._ActionsContainer) -> None:
    """Add where the network runs."""
    group.add_argument("--device", default="auto", help="auto, cpu or cuda")
    group.add_argument(
        "--backend",
        default="auto",
        choices=("auto", "native", "reference"),
        help="compiled ops or plain PyTorch (reference)",
    )


def add_quiet(group: argparse._ActionsContainer) -> None:
    """Add the silencing of progress."""
    group.add_argument("--quiet", action="store_true", help="no progress (there is none where stderr is no terminal)")
