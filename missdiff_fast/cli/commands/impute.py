"""``missdiff impute``: fill the holes of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast.cli.options import TABLES, add_device, add_quiet, add_reading
from missdiff_fast.cli.user_error import UserError

if TYPE_CHECKING:
    import argparse

HELP = "fill the holes of a table"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a file written by 'missdiff fit'")
    parser.add_argument("data", metavar="DATA", type=Path, help=f"a table with the columns that fit saw: {TABLES}")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="the table to write (default: CSV on stdout)")
    parser.add_argument(
        "--draws",
        metavar="M",
        type=int,
        help="write M random fillings, as OUT-1, OUT-2 and so on (out-1.csv for -o out.csv), whose spread tells how "
        "uncertain each cell is; default: one table, with means and most probable categories",
    )
    parser.add_argument(
        "--keep",
        metavar="COL",
        action="append",
        default=[],
        help="a column the model does not know, copied as it is (repeatable)",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="of the draws")
    add_reading(parser)
    add_device(parser)
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Write a table with its holes filled, or several random fillings of it."""
    import pandas as pd

    from missdiff_fast.cli.tables import check_input, check_table_output, known, load, markers, read, write

    if args.draws is None:
        outputs = [args.output]
    elif args.draws < 1:
        raise UserError(f"--draws must be at least 1, not {args.draws}")
    elif args.output is None:
        raise UserError("--draws writes one file for each draw: say where with -o OUT")
    else:
        outputs = [numbered(args.output, m + 1) for m in range(args.draws)]
    for output in outputs:
        check_table_output(output, args.model, args.data)
    check_input(args.data)
    model = load(args)
    # A part of a table may hold only digits, or nothing, where the whole had strings too.
    strings = [str(column.name) for column in model.codec_.schema if column.family == "string"]
    marks = markers(args.missing_values) or model.missing_values
    frame = read(args, marks, [*strings, *args.keep], keep_blank_rows=True)
    kept = known(args.keep, frame, "--keep")
    table = frame.drop(columns=kept)
    extra = [column for column in table.columns if column not in set(model.columns_)]
    if extra:
        raise UserError(
            f"{args.data} has columns the model does not know: {extra}; --keep {extra[0]!r} copies one as it is"
        )
    if args.draws is None:
        tables = [model.impute(table)]
    else:
        tables = model.impute_draws(table, args.draws, random_state=args.seed)
    for filled, output in zip(tables, outputs, strict=True):
        filled = pd.concat([filled, frame[kept]], axis=1)[list(frame.columns)] if kept else filled
        write(filled, output)


def numbered(path: Path, number: int) -> Path:
    """Put a number before the suffixes that tell a table's format.

    Examples
    --------
    >>> numbered(Path("to/filled.v2.csv.gz"), 3).as_posix()
    'to/filled.v2-3.csv.gz'
    """
    from missdiff_fast.table.io import file_kind

    _, compression = file_kind(path)
    plain = Path(path.name.removesuffix(compression))
    return path.with_name(f"{plain.stem}-{number}{plain.suffix}{compression}")
