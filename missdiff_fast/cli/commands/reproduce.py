"""``missdiff reproduce``: rerun the paper's tables and its figure."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from missdiff_fast._output import show
from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.json_output import add_json, print_json
from missdiff_fast.cli.options import add_quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = "rerun the paper's tables and its figure"


def add_options(parser: argparse.ArgumentParser, common: argparse._ArgumentGroup) -> None:
    """Add the command's options."""
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="+",
        help="table1 to table13, figure-bn, imputation (names by the labels in the paper's source), all; or list",
    )
    parser.add_argument(
        "--scale",
        default="short",
        help="smoke: do all runs work, in a minute or two; short (default): fewer steps, rows and repetitions, "
        "an hour or two for each data set on two cores; full: the paper's, for a GPU",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=Path,
        default=Path("missdiff-reproduce"),
        help="folder for NAME.csv, NAME.md and runs/, which keeps finished runs from being repeated (default: "
        "missdiff-reproduce)",
    )
    parser.add_argument("--repetitions", metavar="N", type=int, help="repetitions of each run (default: by the scale)")
    parser.add_argument("--methods", metavar="METHOD", nargs="+", help="only these; see 'missdiff reproduce list'")
    parser.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        help="master_dataset.csv of the MIMIC4ED benchmark, for table3 and table4 (default: simulated rows)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the first repetition (default 0)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    add_json(common, "the files and the number of runs")
    add_quiet(common)


def run(args: argparse.Namespace) -> int:
    """Run, write and print the tables; 1 if a run failed."""
    from missdiff_fast.cli.tables import check_input, check_stdout
    from missdiff_fast.reproduce.registry import EXPERIMENTS, METHODS

    check_stdout()
    if "list" in args.names:
        if args.json:
            experiments = [{"name": name, "title": one.title} for name, one in EXPERIMENTS.items()]
            print_json({"experiments": experiments, "methods": list(METHODS)})
            return 0
        for name, experiment in EXPERIMENTS.items():
            show(f"{name:<11} {experiment.title} ({experiment.printed})")
        show(f"\nmethods: {', '.join(METHODS)}")
        return 0
    if args.data is not None:
        check_input(args.data)
    _check_folder(args.output)
    from missdiff_fast.reproduce.runner import reproduce

    tables, failed, total = reproduce(
        args.names,
        args.output,
        scale=args.scale,
        repetitions=args.repetitions,
        methods=args.methods,
        seed=args.seed,
        device=args.device,
        data=args.data,
        verbose=not args.quiet,
    )
    if args.json:
        files = [
            {"name": name, "markdown": str(args.output / f"{name}.md"), "csv": str(args.output / f"{name}.csv")}
            for name in tables
        ]
        print_json({"tables": files, "runs": total, "failed": failed})
    else:
        show(_results(args.output, list(tables)))
    if failed:
        from missdiff_fast.cli.errors import complain

        complain(f"{failed} of {total} runs failed; the tables name them, and the next call repeats them")
    return 1 if failed else 0


def _check_folder(path: Path) -> None:
    """Refuse a path that is a file; the first file written shows whether a folder is writable."""
    if path.exists() and not path.is_dir():
        raise UserError(f"-o {path} is a file; give the name of a folder")


def _results(output: Path, names: Sequence[str]) -> str:
    """The tables without the notes below them, and the paths of their files."""
    parts = []
    for name in names:
        path = output / f"{name}.md"
        text = path.read_text(encoding="utf-8")
        end = min(
            place for place in (text.find(f"\n## {title}\n") for title in ("Failed", "Notes", "Time")) if place > 0
        )
        parts.append(f"{text[:end].rstrip()}\n\n{path}, {path.with_suffix('.csv')}\n")
    return "\n".join(parts)
