"""``missdiff mask``: hide cells of a table, at random or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.json_output import add_json, check_room, print_json
from missdiff_fast.cli.options import INPUTS, OUTPUTS, add_plain, add_reading
from missdiff_fast.cli.places import read_output, read_place

if TYPE_CHECKING:
    import argparse

    import pandas as pd

HELP = "hide cells of a table, at random or not"


def add_options(parser: argparse.ArgumentParser, _: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("data", metavar="DATA", type=read_place, help=f"the table: {INPUTS}")
    parser.add_argument("-o", "--output", metavar="OUT", type=read_output, help=OUTPUTS)
    parser.add_argument(
        "--mechanism",
        choices=("row", "column", "independent", "mar", "nmar"),
        default="independent",
        help="row, column: the same number of cells of each; independent (the default): each cell by itself; mar: by a "
        "logistic function of columns that stay complete; nmar: by one of columns that lose cells too",
    )
    parser.add_argument("--ratio", metavar="X", type=float, default=0.2, help="share of the cells (default 0.2)")
    parser.add_argument("--seed", metavar="N", type=int, help="seed that hides the same cells again")
    parser.add_argument(
        "--keep",
        metavar="COL",
        action="append",
        default=[],
        help="a column to copy as it is (repeatable)",
    )
    logistic = parser.add_argument_group("mar and nmar")
    logistic.add_argument(
        "--observed-share",
        metavar="X",
        type=float,
        help="share of the columns that the masks of the others depend on (default 0.3)",
    )
    logistic.add_argument(
        "--target",
        choices=("overall", "columns"),
        help="for mar: what loses the ratio, the whole table (the default) or each column that loses cells",
    )
    add_plain(parser, "DATA")
    add_json(parser, "what was hidden")
    add_reading(parser)


def run(args: argparse.Namespace) -> None:
    """Write a table with fewer cells."""
    import pandas as pd

    from missdiff_fast.cli.tables import as_read_only, check_table_output, known, markers, read_to_rewrite, rewrite
    from missdiff_fast.missingness import hide
    from missdiff_fast.table.dates import forms_of, with_forms
    from missdiff_fast.table.limit_reading import decimal_of, limit_columns, texts_with_points

    if not 0 < args.ratio < 1:
        raise UserError(f"--ratio must be greater than 0 and less than 1, got {args.ratio}")
    asked = {"observed_share": args.observed_share, "target": args.target}
    logistic = {name: value for name, value in asked.items() if value is not None}
    if logistic and args.mechanism not in ("mar", "nmar"):
        option = f"--{next(iter(logistic)).replace('_', '-')}"
        raise UserError(f"{option} is for the mechanisms mar and nmar, not for {args.mechanism}: leave it out")
    check_room(args)
    check_table_output(args.output, args.data)
    frame, rewriter = read_to_rewrite(args, markers(args.missing_values), args.keep, keep_blank_rows=True)
    kept = known(args.keep, frame, "--keep")
    if len(kept) == len(frame.columns):
        raise UserError("--keep names every column, so there are no cells to hide")
    table = frame.drop(columns=kept).apply(_nullable)
    holes, observed = hide(
        table,
        args.mechanism,
        args.ratio,
        args.seed,
        **logistic,
    )
    if args.plain:
        holes, rewriter = texts_with_points(holes, limit_columns(table, decimal_of(frame))), as_read_only(rewriter)
    masked = with_forms(pd.concat([holes, frame[kept]], axis=1)[list(frame.columns)], forms_of(frame))
    rewrite(masked, args.output, rewriter, as_written=kept)
    if args.json:
        hidden = (table.notna().to_numpy() & ~observed).sum(0)
        columns = [{"column": name, "hidden": number} for name, number in zip(table.columns, hidden, strict=True)]
        print_json({"output": str(args.output), "rows": len(frame), "columns": columns})


def _nullable(column: pd.Series) -> pd.Series:
    """Convert integers to a nullable dtype, so that they stay integers when cells go missing."""
    import numpy as np
    from pandas.api.types import pandas_dtype

    dtype = column.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
        return column
    name = f"{'U' if dtype.kind == 'u' else ''}Int{8 * dtype.itemsize}"
    return column.astype(pandas_dtype(name))
