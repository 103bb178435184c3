"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

TABLES = "CSV (also compressed), TSV, Parquet, Feather, Excel, SPSS, Stata or SAS, by the file name"
INPUTS = f"{TABLES}; - for stdin, or the file or URL of a database"
OUTPUTS = "the table to write, of a kind that its name tells (default, or -: CSV on stdout)"


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
        help="a column of a CSV or Excel file in which NA, null and the like are values, such as the code of a country "
        "(repeatable)",
    )
    group.add_argument(
        "--format", metavar="KIND", help="the kind of file, such as tsv or parquet, if its name does not tell it"
    )
    group.add_argument("--sheet", metavar="NAME", help="the sheet of an Excel file")
    group.add_argument("--query", metavar="SQL", help="what to read from a database: a SELECT statement")
    group.add_argument("--separator", metavar="CHAR", help="separator of a CSV file")
    group.add_argument("--decimal", metavar="CHAR", help="decimal mark of a CSV file")
    group.add_argument(
        "--date-order",
        metavar="day|month",
        choices=("day", "month"),
        help="what stands first in dates of a CSV file such as 01/02/2024, where no cell of the column tells it",
    )
    group.add_argument("--encoding", metavar="NAME", help="encoding of a CSV file")
    heading = group.add_mutually_exclusive_group()
    heading.add_argument(
        "--header",
        action="store_const",
        const=True,
        help="the first line of a CSV file names the columns, though it looks like data",
    )
    heading.add_argument(
        "--no-header",
        dest="header",
        action="store_const",
        const=False,
        help="the first line of a CSV or Excel file is data; columns are named 0, 1, 2, ...",
    )
    group.add_argument("--skip-rows", metavar="N", type=int, default=0, help="lines to skip at the top")
    group.add_argument(
        "--skip-line",
        metavar="N",
        type=int,
        action="append",
        help="a line of a CSV or Excel file to leave out, such as 2 for units below the header (repeatable; by default "
        "lines of units, types or labels of a CSV file)",
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
        "--sdv-metadata",
        metavar="JSON",
        type=Path,
        help="metadata of SDV, which say what the columns are; --treat and --categorical count more",
    )
    group.add_argument(
        "--max-categories",
        metavar="N",
        type=int,
        help="refuse columns with more categories (default 10000, and 100 with --preset paper)",
    )


def add_structural(parser: argparse._ActionsContainer) -> None:
    """Add the option that says what becomes of structural holes."""
    parser.add_argument(
        "--structural-missing",
        metavar="keep|fill",
        choices=("keep", "fill"),
        help="keep or fill holes that another column explains, as there is no death date of the living (default: keep)",
    )


def add_plain(parser: argparse._ActionsContainer, default: str) -> None:
    """Add the option that writes text in one way; ``default`` says in which it is written otherwise."""
    parser.add_argument(
        "--plain",
        action="store_true",
        help=f"write text with commas, decimal points, a header and UTF-8 (default: as {default} is written, but with "
        "the separator that OUT's name tells, as .tsv does)",
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
