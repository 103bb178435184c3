"""``missdiff sample``: draw synthetic rows from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast.cli.json_output import add_json, check_room, print_json
from missdiff_fast.cli.options import TABLES, add_device, add_plain, add_quiet, add_structural
from missdiff_fast.cli.places import read_output

if TYPE_CHECKING:
    import argparse

HELP = "draw synthetic rows from a model"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a file written by 'missdiff fit'")
    parser.add_argument("-n", "--num-rows", metavar="N", type=int, required=True, help="number of rows")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=read_output,
        help=f"the table to write: {TABLES} (default, or -: CSV on stdout)",
    )
    parser.add_argument(
        "--given",
        metavar="COL=VALUE",
        action="append",
        default=[],
        help="draw rows with this value, with one in a range, COL=LEAST..GREATEST, or with one of several, "
        "'COL in VALUE,VALUE' (repeatable)",
    )
    parser.add_argument(
        "--missing", action="store_true", help="draw rows with holes like those of the table, not complete ones"
    )
    parser.add_argument(
        "--first-row",
        metavar="N",
        type=int,
        default=0,
        help="skip rows 0 to N - 1 of the sample: with the same seed, chunks continue one another",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        help="draws the same rows again (default: the seed of fit, if it had one)",
    )
    add_plain(parser, "the text file that fit read")
    add_structural(parser)
    add_json(common, "what was written")
    add_device(parser)
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Write synthetic rows."""
    from missdiff_fast.cli.given import parse_all_given
    from missdiff_fast.cli.tables import check_table_output, holds_mixed, is_text, load, write
    from missdiff_fast.table.dates import with_forms
    from missdiff_fast.table.frame_writing import PLAIN
    from missdiff_fast.table.limit_reading import with_points

    check_room(args)
    check_table_output(args.output, args.model)
    model = load(args)
    if args.structural_missing is not None:
        model.structural_missing = args.structural_missing
    others = [aside.column for aside in model.asides_.found.values()]
    decimal = "." if model.dialect_ is None else model.dialect_.decimal
    given = parse_all_given(model.codec_, args.given, others, decimal)
    rows = model.sample(
        args.num_rows,
        given=given or None,
        missing=args.missing,
        first_row=args.first_row,
        random_state=args.seed,
    )
    dialect = None if args.plain or not is_text(args.output) else model.dialect_
    if dialect is None:
        rows = with_points(rows, model.codec_.schema, mixed=not args.plain and holds_mixed(args.output))
    write(with_forms(rows, model.codec_.schema.forms), args.output, dialect or PLAIN)
    if args.json:
        names = [str(name) for name in rows.columns]
        print_json({"output": str(args.output), "rows": len(rows), "first_row": args.first_row, "columns": names})
