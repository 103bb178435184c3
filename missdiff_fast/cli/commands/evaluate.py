"""``missdiff evaluate``: measure how good synthetic rows are."""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast._output import show
from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.json_output import add_json, print_json, records
from missdiff_fast.cli.options import INPUTS, add_quiet, add_reading
from missdiff_fast.cli.places import Place, read_place
from missdiff_fast.errors import DataError, DataWarning
from missdiff_fast.remedies import Drop

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

_START = 1 << 18  # bytes that hold the names of a table without any, which are numbers
HELP = "measure how good synthetic rows are"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("data", metavar="REAL", type=read_place, help=f"the table the model was fitted to: {INPUTS}")
    parser.add_argument("synthetic", metavar="SYNTHETIC", type=read_place, help="complete rows with the same columns")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="a table to write, a row for each measure")
    parser.add_argument(
        "--continuous",
        metavar="COL",
        action="append",
        help="a column to compare as numbers (repeatable; default: all numeric columns); the others are categories",
    )
    parser.add_argument(
        "--categorical",
        metavar="COL",
        action="append",
        default=[],
        help="a column of a CSV file to read as text, as in fit (repeatable)",
    )
    parser.add_argument(
        "--drop", metavar="COL", action="append", default=[], help="leave a column out, as in fit (repeatable)"
    )
    parser.add_argument(
        "--detection", action="store_true", help="also score classifiers that tell SYNTHETIC from REAL, row by row"
    )
    parser.add_argument(
        "--precision-recall",
        action="store_true",
        help="also score where rows of SYNTHETIC lie among those of REAL: alpha-precision, beta-recall, authenticity",
    )
    group = parser.add_argument_group("utility: models learn from SYNTHETIC to predict a column of TEST")
    group.add_argument("--test", metavar="TEST", type=read_place, help="complete real rows that were not used in fit")
    group.add_argument("--target", metavar="COL", help="the column to predict")
    group.add_argument(
        "--model",
        metavar="NAME",
        action="append",
        help="decision_tree, adaboost, logistic_regression (linear_regression for a numeric target), mlp, "
        "random_forest or xgboost (repeatable; default: all six)",
    )
    group.add_argument(
        "--grid",
        choices=("small", "full"),
        default="small",
        help="the settings to try for each model on REAL: one or two (small, the default), or the paper's (full); "
        "these can take ten times as long",
    )
    group.add_argument("--jobs", metavar="N", type=int, default=-1, help="parallel fits (default: one for each core)")
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the models, and of the choice of rows (default 0)"
    )
    add_json(common, "the figures")
    add_reading(parser)
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Print the report, and write it as a table."""
    import pandas as pd
    from pandas.api.types import infer_dtype

    from missdiff_fast.cli.tables import (
        check_input,
        check_stdout,
        check_table_output,
        known,
        markers,
        say,
        write_quietly,
    )
    from missdiff_fast.evaluate.report import format_report, report_details, worst

    if (args.test is None) != (args.target is None):
        raise UserError("--test TEST and --target COL go together: rows to test on, and the column to predict")
    if args.jobs == 0:
        raise UserError("--jobs must be 1 or more, or -1 for one for each core")
    paths = [args.data, args.synthetic, *([] if args.test is None else [args.test])]
    check_stdout()
    if sum(path == read_place("-") for path in paths) > 1:
        raise UserError("only one of the tables can come from stdin (-)")
    if args.output is not None:
        check_table_output(args.output, *paths)
    for path in paths:
        check_input(path)
    marks = markers(args.missing_values)
    # Dropped columns read as text cause no warnings.
    real = _read(args, args.data, marks, [*args.categorical, *args.drop])
    known(args.categorical, real, "--categorical")
    # dtype object alone does not tell: flags with missing cells have it too.
    strings = [column for column in real.columns if infer_dtype(real[column], skipna=True) == "string"]
    as_text = [*strings, *args.drop]
    synthetic = _read(args, args.synthetic, marks, as_text, _header(args, args.synthetic, real))
    test = None if args.test is None else _read(args, args.test, marks, as_text, _header(args, args.test, real))
    # A column that one table alone has can be dropped too.
    known(args.drop, pd.concat([table.head(0) for table in (real, synthetic, test) if table is not None]), "--drop")
    dropped = [*args.drop, *_not_compared(real.drop(columns=args.drop, errors="ignore"), args)]
    real, synthetic = (table.drop(columns=dropped, errors="ignore") for table in (real, synthetic))
    test = None if test is None else test.drop(columns=dropped, errors="ignore")
    known(args.continuous or [], real, "--continuous")
    if args.target is not None:
        known([args.target], real, "--target")
        holes = int(real.isna().any(axis=1).sum())
        if holes:
            say(args, f"{args.data}: {holes:,} rows with missing cells are not used to choose settings")
    found, details = report_details(
        real,
        synthetic,
        test=test,
        target=args.target,
        continuous=args.continuous,
        models=args.model,
        grid=args.grid,
        random_state=args.seed,
        n_jobs=args.jobs,
        detection=args.detection,
        precision_recall=args.precision_recall,
    )
    if args.json:
        print_json({"measures": records(found), **{name: records(one) for name, one in worst(details).items()}})
    else:
        show(format_report(found, details))
    if args.output is not None:
        write_quietly(found, args.output)


def _not_compared(real: pd.DataFrame, args: argparse.Namespace) -> list[str]:
    """The columns of REAL that a fit sets aside; a warning names them."""
    from missdiff_fast.table import read_frame
    from missdiff_fast.table.aside import FREE_TEXT, Asides

    chosen = [*args.categorical, *(args.continuous or []), *([] if args.target is None else [args.target])]
    cells = read_frame(real, categorical_columns=[name for name in dict.fromkeys(chosen) if name in real])
    found = Asides.find(cells, {}, max_categories=FREE_TEXT).found
    names = [str(name) for name in found if name not in chosen]
    if names:
        each = ", ".join(f"{name!r} ({found[name].kind})" for name in names)
        problem = f"columns of REAL that a fit sets aside are not compared: {each}"
        remedy = Drop(tuple(names), when="to silence this")
        warnings.warn(DataWarning("aside", problem, columns=names, remedy=remedy, joint="; "), stacklevel=2)
    return names


def _header(args: argparse.Namespace, path: Place, real: pd.DataFrame) -> bool | None:
    """Whether a text file has a header: none where REAL has none, unless its first line holds the names of REAL.

    None leaves it to detection.
    """
    from missdiff_fast.table.dialect import dialect_of
    from missdiff_fast.table.files import COMPRESSED, DELIMITED, read_start

    own = dialect_of(real)
    header: bool | None = args.header
    if header is not None or own is None or own.header or not isinstance(path, Path):
        return header
    compression = path.suffix if path.suffix.lower() in COMPRESSED else ""
    if Path(path.name.removesuffix(compression)).suffix.lower() not in DELIMITED:
        return None
    # The names are numbers, so any encoding has them as ASCII, but for marks and the zeros of UTF-16.
    start = re.sub(rb"[^\n -~\t]", b"\n", read_start(path, compression, _START).replace(b"\0", b"")).lstrip()
    names = [name.strip('"') for name in re.split(r"[,;\t| ]+", start.decode("ascii").partition("\n")[0])]
    return None if names == list(real.columns) else False


def _read(
    args: argparse.Namespace,
    path: Place,
    marks: list[str | float],
    strings: Collection[str] = (),
    header: bool | None = None,
) -> pd.DataFrame:
    """Read one of the tables; `strings` are columns to read as text, even if all their cells are numbers.

    ``header`` is that of a table other than REAL.
    """
    from missdiff_fast.cli.tables import read

    # A mark may be one of a single table, so no warning tells that the others lack it.
    given: dict[str, object] = {"data": path, "missing_values": []}
    if path is not args.data:
        given |= {"format": None, "sheet": None, "query": None, "header": header}
    try:
        return read(argparse.Namespace(**(vars(args) | given)), marks, strings)
    except UserError as error:
        cause = error.__cause__
        if path is args.data or not isinstance(cause, DataError) or cause.kind not in ("sheet", "query"):
            raise
        raise UserError(f"{cause.problem}: save the table as CSV; --sheet and --query are for REAL") from error
