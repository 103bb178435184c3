"""``missdiff demo``: hide a fifth of the Census table, train on the rest, and compare with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast.cli.options import add_device, add_quiet

if TYPE_CHECKING:
    import argparse

HELP = "hide a fifth of the Census table, train on the rest, and compare with the truth"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=Path,
        default=Path("missdiff-demo"),
        help="folder of results (default: missdiff-demo)",
    )
    parser.add_argument("--steps", metavar="N", type=int, help="training steps; fewer for a quick look")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the model (default 0)")
    add_device(parser)
    add_quiet(common)


def run(args: argparse.Namespace) -> None:
    """Run the demo on the Census table."""
    from missdiff_fast import demo
    from missdiff_fast.cli.tables import check_stdout

    check_stdout()
    verbose = not args.quiet
    demo.run(args.output, steps=args.steps, seed=args.seed, device=args.device, backend=args.backend, verbose=verbose)
