"""``missdiff fit``: train a model on a table with missing cells."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdiff_fast.cli.config import apply_config
from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.json_output import add_json, print_json
from missdiff_fast.cli.options import INPUTS, add_columns, add_device, add_quiet, add_reading, add_rules, add_structural
from missdiff_fast.cli.places import read_place

if TYPE_CHECKING:
    import argparse

HELP = "train a model on a table with missing cells"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument("data", metavar="DATA", type=read_place, help=f"the table: {INPUTS}")
    parser.add_argument(
        "-o",
        "--output",
        metavar="MODEL",
        type=Path,
        required=True,
        help="the file for the model; Ctrl-C saves the model as trained so far",
    )
    parser.add_argument(
        "--config",
        metavar="TOML",
        type=Path,
        help="a file of options, such as 'missdiff plan' writes; options given here count more",
    )
    add_reading(parser)
    add_columns(parser)
    add_structural(parser)
    add_rules(parser)
    training = parser.add_argument_group("training (the defaults suit most tables)")
    training.add_argument(
        "--preset", default="default", help="default, or paper for MissDiff as published, which is slow"
    )
    training.add_argument(
        "--effort",
        default="default",
        help="quick, default, or best, which takes about ten times the default's time",
    )
    length = training.add_mutually_exclusive_group()
    length.add_argument("--steps", metavar="N", type=int, help="training steps before refinement")
    length.add_argument(
        "--budget", metavar="TIME", help="time for the training, such as 90s or 2min, instead of --steps"
    )
    length.add_argument("--epochs", metavar="N", type=int, help="passes over the rows, instead of --steps")
    training.add_argument("--batch-size", metavar="N", type=int, help="rows in each step")
    training.add_argument("--learning-rate", metavar="X", type=float, help="peak of the learning rate")
    training.add_argument("--width", metavar="N", type=int, help="width of the network")
    training.add_argument("--blocks", metavar="N", type=int, help="residual blocks of the network")
    training.add_argument(
        "--setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any other setting of the preset, such as solver.steps=20 (repeatable)",
    )
    refinement = training.add_mutually_exclusive_group()
    refinement.add_argument(
        "--refine",
        metavar="N",
        type=int,
        help="rounds of refinement, which fills missing cells and trains on (default: 0 to 2, by their share)",
    )
    refinement.add_argument("--no-refine", dest="refine", action="store_const", const=0, help="the same as --refine 0")
    training.add_argument(
        "--refits",
        metavar="N",
        type=int,
        default=0,
        help="networks trained further on bootstrap samples of the rows, which 'impute --draws' takes in turn, for "
        "pooling by Rubin's rules (default: none)",
    )
    training.add_argument("--seed", metavar="N", type=int, help="seed that makes the model repeatable")
    add_device(training)
    add_json(common, "a summary of the model")
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Train a model on a table and save it, also if Ctrl-C ends the training early."""
    from missdiff_fast.cli.commands.info import describe
    from missdiff_fast.cli.tables import check_output, check_stdout, say
    from missdiff_fast.cli.treatments import read_with_treatments

    if args.config is not None:
        apply_config(args)
    if args.json:
        check_stdout()
    check_output(args.output, args.data)
    settings = dict(map(_setting, args.setting))
    frame, columns = read_with_treatments(args)
    holes = float(frame.isna().to_numpy().mean()) if frame.size else 0.0
    say(args, f"{args.data}: {len(frame):,} rows, {frame.shape[1]} columns, {holes:.1%} of the cells missing")
    from missdiff_fast.model import MissDiff

    model = MissDiff(
        preset=args.preset,
        effort=args.effort,
        budget=args.budget,
        steps=args.steps,
        epochs=args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        width=args.width,
        blocks=args.blocks,
        random_state=args.seed,
        device=args.device,
        backend=args.backend,
        refine=args.refine,
        refits=args.refits,
        structural_missing=args.structural_missing,
        rules=args.rules,
        verbose=not args.quiet,
        settings=settings,
        **columns,
    )
    started = time.perf_counter()
    try:
        model.fit(frame)
        model.save(args.output)
    except KeyboardInterrupt:
        if not hasattr(model, "history_"):
            raise KeyboardInterrupt("training had not begun, so there is no model") from None
        model.save(args.output)
        steps = int(model.history_["step"].max()) if len(model.history_) else 0
        raise KeyboardInterrupt(
            f"the model as trained so far ({steps or 'fewer than 50'} steps) is in {args.output}"
        ) from None
    seconds = time.perf_counter() - started
    say(args, f"{args.output}: the model, trained in {seconds:.0f} s")
    if args.json:
        table = {"data": str(args.data), "rows": len(frame), "missing": holes, "seconds": seconds}
        print_json({"model": str(args.output), **table, **describe(model)})


def _setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value is parsed as JSON (a list as a tuple), else kept as a string."""
    name, found, value = text.partition("=")
    if not found:
        raise UserError(f"--setting {text!r}: write NAME=VALUE")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    return name, tuple(parsed) if isinstance(parsed, list) else parsed
