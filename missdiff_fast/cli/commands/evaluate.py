"""``missdiff evaluate``: tell how good synthetic rows are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast._output import show
from missdiff_fast.cli.options import TABLES, add_quiet, add_reading
from missdiff_fast.cli.user_error import UserError

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

HELP = "tell how good synthetic rows are"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("data", metavar="REAL", type=Path, help=f"the table the model was fitted to: {TABLES}")
    parser.add_argument("synthetic", metavar="SYNTHETIC", type=Path, help="complete rows with the same columns")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="a table to write, with a row for each figure")
    parser.add_argument(
        "--continuous",
        metavar="COL",
        action="append",
        help="a column to be taken as numbers (repeatable; default: all of numbers); the others are categories",
    )
    parser.add_argument(
        "--categorical",
        metavar="COL",
        action="append",
        default=[],
        help="a column of a CSV file to be taken as it is written, as it was in fit (repeatable)",
    )
    group = parser.add_argument_group("utility: models learn from SYNTHETIC to predict a column of TEST")
    group.add_argument("--test", metavar="TEST", type=Path, help="complete real rows that the fit has not seen")
    group.add_argument("--target", metavar="COL", help="the column to predict")
    group.add_argument(
        "--model",
        metavar="NAME",
        action="append",
        help="decision_tree, adaboost, logistic_regression (linear_regression where the target is of numbers), mlp, "
        "random_forest or xgboost (repeatable; default: all six)",
    )
    group.add_argument(
        "--grid",
        choices=("small", "full"),
        default="small",
        help="the settings of each model to choose from by REAL: one or two (small, the default), or the paper's, "
        "which can take ten times as long",
    )
    group.add_argument("--jobs", metavar="N", type=int, default=-1, help="fits side by side (default: one a core)")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of the models (default 0)")
    add_reading(parser)
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Print the report, and write it as a table."""
    from pandas.api.types import infer_dtype

    from missdiff_fast.cli.tables import check_input, check_stdout, check_table_output, known, markers, say, write
    from missdiff_fast.evaluate.report import format_report, report

    if (args.test is None) != (args.target is None):
        raise UserError("--test TEST and --target COL go together: rows to test on, and the column to predict")
    if args.jobs == 0:
        raise UserError("--jobs must be 1 or more, or -1 for one a core")
    paths = [args.data, args.synthetic, *([] if args.test is None else [args.test])]
    check_stdout()
    if args.output is not None:
        check_table_output(args.output, *paths)
    for path in paths:
        check_input(path)
    marks = markers(args.missing_values)
    real = _read(args, args.data, marks, args.categorical)
    known(args.categorical, real, "--categorical")
    # Not all columns of objects: flags with holes are such too.
    strings = [column for column in real.columns if infer_dtype(real[column], skipna=True) == "string"]
    synthetic = _read(args, args.synthetic, marks, strings)
    test = None if args.test is None else _read(args, args.test, marks, strings)
    known(args.continuous or [], real, "--continuous")
    if args.target is not None:
        known([args.target], real, "--target")
        holes = int(real.isna().any(axis=1).sum())
        if holes:
            say(args, f"{args.data}: {holes:,} rows with missing cells take no part in the choice of settings")
    found = report(
        real,
        synthetic,
        test=test,
        target=args.target,
        continuous=args.continuous,
        models=args.model,
        grid=args.grid,
        random_state=args.seed,
        n_jobs=args.jobs,
    )
    show(format_report(found))
    if args.output is not None:
        write(found, args.output)


def _read(
    args: argparse.Namespace, path: Path, marks: list[str | float], strings: Collection[str] = ()
) -> pd.DataFrame:
    """Read one of several tables; `strings` are the columns whose cells are strings in the others, digits or not."""
    from missdiff_fast.cli.tables import read

    return read(argparse.Namespace(**(vars(args) | {"data": path})), marks, strings)
