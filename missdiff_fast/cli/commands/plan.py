"""``missdiff plan``: tell what a fit would do with each column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdiff_fast._output import show
from missdiff_fast.cli.json_output import add_json, print_json
from missdiff_fast.cli.options import INPUTS, add_columns, add_reading, add_rules
from missdiff_fast.cli.places import read_place

if TYPE_CHECKING:
    import argparse

HELP = "tell what a fit would do with each column, and what to look at before"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("data", metavar="DATA", type=read_place, help=f"the table: {INPUTS}")
    parser.add_argument(
        "-o",
        "--output",
        metavar="TOML",
        type=Path,
        help="also write the plan to a file, to change it and pass it to 'missdiff fit --config'",
    )
    add_json(parser, "the plan")
    add_reading(parser)
    add_columns(parser)
    add_rules(parser)
    parser.add_argument("--preset", default="default", help="the preset of the fit, default or paper")


def run(args: argparse.Namespace) -> None:
    """Print the plan of a fit, and write it."""
    from missdiff_fast.cli.tables import check_output, check_stdout
    from missdiff_fast.cli.treatments import read_with_treatments

    check_stdout()
    if args.output is not None:
        check_output(args.output, args.data)
    frame, columns = read_with_treatments(args)
    from missdiff_fast.model import MissDiff
    from missdiff_fast.table.atomic import write_atomically

    plan = MissDiff(preset=args.preset, rules=args.rules, **columns).plan(frame)
    if args.output is not None:
        with write_atomically(args.output) as temporary:
            temporary.write_text(plan.to_toml(_given(args)), encoding="utf-8")
    if args.json:
        print_json(plan.to_dict())
    else:
        show(str(plan))


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """The options that 'missdiff fit' needs to read the table in the same way."""
    reading = ("missing-values", "keep-na", "separator", "decimal", "date-order", "encoding", "skip-rows", "skip-line")
    names = ("format", "sheet", "query", *reading, "preset", "categorical", "drop", "max-categories")
    actions = {name: args.options[f"--{name}"] for name in names}
    given = {name: getattr(args, action.dest) for name, action in actions.items()}
    given = {name: value for name, value in given.items() if value != actions[name].default}
    return given | ({} if args.header is None else {"header" if args.header else "no-header": True})
