"""Frame of the scripts: options, times and peak memory of their steps, rows as they come, stored tables and plots."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
import store
import torch

if TYPE_CHECKING:  # no import, which would count in a measured process's memory
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")


def begin(doc: str | None, *files: str, **defaults: Any) -> argparse.Namespace:
    """Read a script's options, and set PyTorch's threads if they are an option.

    Every script has ``--save``. The result also has ``facts``, those of the commit as the script begins.

    Parameters
    ----------
    doc : str
        Text for ``--help``.
    *files : str
        Names of positional arguments, which are paths.
    **defaults : Any
        Default of each option; a list for one of several values, False for a switch, a type for one without default.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in files:
        parser.add_argument(name, type=Path)
    for name, default in {**defaults, "save": False}.items():
        if default is False:
            hidden = argparse.SUPPRESS if name == "child" else None
            parser.add_argument(f"--{name}", action="store_true", help=hidden)
        elif isinstance(default, list):
            parser.add_argument(f"--{name}", nargs="+", type=type(default[0]), default=default)
        elif isinstance(default, type):
            parser.add_argument(f"--{name}", type=default)
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    if "threads" in defaults:
        torch.set_num_threads(options.threads)
    if not getattr(options, "child", False):
        options.facts = store.facts()
    return options


class Steps:
    """Seconds of each step and the process's peak memory by its end, in bytes."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def take(self, name: str, work: Callable[..., T], *arguments: Any) -> T:
        """Do the work, and record its time and the peak memory."""
        began = time.perf_counter()
        result = work(*arguments)
        self.found[name] = {"seconds": time.perf_counter() - began, "peak": peak(resource.RUSAGE_SELF)}
        return result

    def seconds(self) -> dict[str, float]:
        """The seconds as columns of a row, such as ``fit_s``."""
        return {f"{name}_s": step["seconds"] for name, step in self.found.items()}


def peak(whose: int) -> int:
    """The peak memory of this process, or of the largest child that has ended, in bytes."""
    return resource.getrusage(whose).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run_alone(script: str, **options: object) -> dict[str, Any]:
    """Run a script with ``--child`` in a fresh process, whose peak memory is that of one measurement.

    The result is the last line that it prints, read as JSON.
    """
    given = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run([sys.executable, script, "--child", *given], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(row: dict[str, Any]) -> None:
    """Print a row as soon as it is measured."""
    rounded = {name: round(float(value), 4) if isinstance(value, float) else value for name, value in row.items()}
    print(rounded, flush=True)


def keep(name: str, table: pd.DataFrame, *sections: str) -> None:
    """Store a table as NAME.csv in bench/results, and ``sections``, if any, as NAME.md."""
    store.RESULTS.mkdir(exist_ok=True)
    table.round(5).to_csv(store.RESULTS / f"{name}.csv", index=False)
    if sections:
        (store.RESULTS / f"{name}.md").write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def tidy(axes: Axes) -> None:
    """Draw a grid, and two sides of the frame only."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)


def draw(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=110, format="png", **options)
