"""``missdiff impute``: fill the missing cells of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast.cli.errors import UserError, written
from missdiff_fast.cli.json_output import add_json, check_room, print_json
from missdiff_fast.cli.options import INPUTS, OUTPUTS, add_device, add_plain, add_quiet, add_reading, add_structural
from missdiff_fast.cli.places import read_output, read_place

if TYPE_CHECKING:
    import argparse

    from missdiff_fast.table import Codec

HELP = "fill the missing cells of a table"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a file written by 'missdiff fit'")
    parser.add_argument("data", metavar="DATA", type=read_place, help=f"a table with the columns of fit: {INPUTS}")
    parser.add_argument("-o", "--output", metavar="OUT", type=read_output, help=OUTPUTS)
    parser.add_argument(
        "--draws",
        metavar="M",
        type=int,
        help="write M random imputations, OUT-1, OUT-2, ... (out-1.csv for -o out.csv), whose spread shows how "
        "uncertain each cell is; default: one table, with means and most probable categories",
    )
    parser.add_argument(
        "--keep",
        metavar="COL",
        action="append",
        default=[],
        help="a column that the model does not know, to copy as it is (repeatable)",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="seed of the draws")
    add_json(common, "what was filled")
    add_reading(parser)
    add_plain(parser, "DATA, or if that is no text, the text file that fit read")
    add_structural(parser)
    add_device(parser)
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Write a table with its missing cells filled, or several random imputations of it."""
    import pandas as pd

    from missdiff_fast.cli.tables import (
        as_read_only,
        check_input,
        check_table_output,
        known,
        load,
        markers,
        read_to_rewrite,
        rewrite,
    )
    from missdiff_fast.table.dates import forms_of, with_forms
    from missdiff_fast.table.fields import MISSING_TEXTS
    from missdiff_fast.table.frame_writing import PLAIN
    from missdiff_fast.table.limit_reading import with_marks_of, with_points
    from missdiff_fast.table.sources import ReadOptions
    from missdiff_fast.table.text_columns import read_known, with_texts
    from missdiff_fast.table.text_writing import Rewriter

    if args.draws is None:
        outputs = [args.output]
    elif args.draws < 1:
        raise UserError(f"--draws must be at least 1, not {args.draws}")
    elif args.output is None:
        raise UserError("--draws writes one file for each draw: say where with -o OUT")
    else:
        outputs = [numbered(args.output, m + 1) for m in range(args.draws)]
    check_room(args)
    for output in outputs:
        check_table_output(output, args.model, args.data)
    check_input(args.data)
    model = load(args)
    if args.structural_missing is not None:
        model.structural_missing = args.structural_missing
    # Read as text what fit read as text: in part of a table a column may hold only digits, or nothing.
    strings = [str(column.name) for column in model.codec_.schema if column.family == "string"]
    # Where fit saw the code NA, it is no missing cell here either.
    codes = [name for name in strings if not set(MISSING_TEXTS).isdisjoint(_texts(model.codec_, name))]
    strings += [str(name) for name in model.asides_.texts()]
    marks = [*markers(args.missing_values), *model.missing_values]
    forms = {str(column.name): column.form for column in model.codec_.schema if column.family != "string"}
    frame, rewriter = read_to_rewrite(
        args, marks, [*strings, *args.keep], keep_na_columns=codes, keep_blank_rows=True, known_forms=forms
    )
    kept = known(args.keep, frame, "--keep")
    table = frame.drop(columns=kept)
    extra = [column for column in table.columns if column not in set(model.columns_)]
    if extra:
        raise UserError(
            f"{args.data} has columns that the model does not know: {extra}; {written('--keep', extra)} copies them as "
            "they are"
        )
    # Other formats than text may have dates as texts where the table of fit had dates.
    options = ReadOptions(known_forms=forms, date_order=args.date_order, missing_values=marks)
    read, of_texts = (table, {}) if isinstance(rewriter, Rewriter) else read_known(table, options, args.data.name)
    if args.draws is None:
        tables = [model.impute(read)]
    else:
        tables = model.impute_draws(read, args.draws, random_state=args.seed)
    rewriter = as_read_only(rewriter) if args.plain else rewriter
    dialect = None if args.plain else model.dialect_
    left = tables[0].isna().sum()
    for filled, output in zip(tables, outputs, strict=True):
        filled = with_marks_of(with_texts(filled, table, read, of_texts), table, model.codec_.schema)
        filled = pd.concat([filled, frame[kept]], axis=1)[list(frame.columns)] if kept else filled
        filled = with_forms(filled, {**model.codec_.schema.forms, **forms_of(frame)})
        filled = with_points(filled, model.codec_.schema) if args.plain else filled
        rewrite(filled, output, rewriter, as_written=kept, keep_missing=True, dialect=dialect or PLAIN)
    if args.json:
        holes = read.isna().sum()
        columns = [{"column": name, "filled": holes[name] - left[name], "left": left[name]} for name in table.columns]
        print_json({"outputs": [str(output) for output in outputs], "rows": len(frame), "columns": columns})


def _texts(codec: Codec, column: str) -> list[str]:
    """The categories of a column of texts."""
    return codec.category_values(column) if column in codec.schema.categorical else []


def numbered(path: Path, number: int) -> Path:
    """Put a number before the suffixes that tell a table's format.

    Examples
    --------
    >>> numbered(Path("to/filled.v2.csv.gz"), 3).as_posix()
    'to/filled.v2-3.csv.gz'
    """
    from missdiff_fast.table.formats import file_kind

    _, compression = file_kind(path)
    plain = Path(path.name.removesuffix(compression))
    return path.with_name(f"{plain.stem}-{number}{plain.suffix}{compression}")
