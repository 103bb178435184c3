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
    group.add_argument(
        "--keep-na",
        metavar="COL",
        action="append",
        default=[],
        help="a column of a CSV file in which NA, null and the like are values, such as the code of a country "
        "(repeatable)",
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


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what the columns are; see `missdiff_fast.cli.treatments.read_with_treatments`."""
    group = parser.add_argument_group("columns (by default found out from their cells)")
    group.add_argument(
        "--categorical",
        metavar="COL",
        action="append",
        default=[],
        help="a column of codes to take as categories; of a CSV file, read as text (repeatable)",
    )
    group.add_argument(
        "--treat",
        metavar="COL=TREATMENT",
        action="append",
        default=[],
        help="what a column is: continuous, categorical, identifier (rows drawn have fresh ones) or text (rows drawn "
        "lack it) (repeatable)",
    )
    group.add_argument("--drop", metavar="COL", action="append", default=[], help="leave a column out (repeatable)")
    group.add_argument(
        "--max-categories",
        metavar="N",
        type=int,
        help="refuse columns with more categories (default 10000, and 100 with --preset paper)",
    )


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add the option of rules, which a file of options calls ``rules``."""
    parser.add_argument(
        "--rule",
        dest="rules",
        metavar="RULE",
        action="append",
        default=[],
        help="what holds in all rows drawn or imputed, such as '0 <= age <= 120', 'admission <= discharge', "
        "'bmi = weight / height**2' or 'combinations(ward, hospital)' (repeatable)",
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
