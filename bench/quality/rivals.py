"""Rivals that need packages of their own: they run in an environment apart, and tables go there and back as files.

Numbers go as they are and categories as ``c0``, ``c1``, ..., so that no method sees their spelling.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from quality.outcome import Outcome

WORKER = Path(__file__).with_name("rival_worker.py")
REQUIREMENTS = Path(__file__).with_name("requirements-rivals.txt")
ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-rivals"
RIVALS = ("mostlyai", "forest_diffusion", "tvae", "miceforest", "hyperimpute")


def default_python() -> str | None:
    """Python of the environment that ``make rivals`` makes; None if there is none."""
    python = ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    return str(python) if python.exists() else None


@cache
def unavailable(name: str, python: str | None) -> str:
    """Why a rival cannot run; empty if it can."""
    if python is None:
        return "no environment for rivals: `make rivals`, or pass --python"
    done = subprocess.run([python, WORKER, "--check", name], capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1] if done.returncode else ""


def run(name: str, holes: pd.DataFrame, seed: int, num_draws: int, draw_rows: int, python: str) -> Outcome:
    """Run a rival on a table with holes.

    Raises
    ------
    RuntimeError
        It failed; the message is the last line that it wrote.
    """
    exchange = Exchange(holes)
    with tempfile.TemporaryDirectory() as folder:
        exchange.coded.to_csv(Path(folder, "holes.csv"), index=False)
        request = {"method": name, "seed": seed, "categories": exchange.places}
        request |= {"num_draws": num_draws, "draw_rows": draw_rows}
        Path(folder, "request.json").write_text(json.dumps(request))
        done = subprocess.run([python, WORKER, folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        answer = json.loads(Path(folder, "answer.json").read_text())

        def table(file: str) -> pd.DataFrame:
            return exchange.decode(pd.read_csv(Path(folder, file), dtype=dict.fromkeys(exchange.places, str)))

        draws = [table(f"draw{m}.csv") for m in range(answer["draws"])] or None
        filled = table("filled.csv") if answer["filled"] else None
        synthetic = table("synthetic.csv") if answer["synthetic"] else None
    return Outcome(answer["seconds"], answer["version"], filled=filled, draws=draws, synthetic=synthetic)


class Exchange:
    """A table as rivals see it, its columns called ``0``, ``1``, ..., and the way back.

    >>> exchange = Exchange(pd.DataFrame({"x": [1.5, None], "y": ["b", "a"]}))
    >>> exchange.coded.values.tolist(), exchange.places
    ([[1.5, 'c1'], [nan, 'c0']], ['1'])
    >>> exchange.decode(pd.DataFrame({"0": [2.5], "1": ["c1"]})).iloc[0].to_dict()
    {'x': 2.5, 'y': 'b'}
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._names, self._codes = list(table.columns), {}
        columns: dict[str, Any] = {}
        for place, name in enumerate(table.columns):
            column = table[name]
            if pd.api.types.is_numeric_dtype(column):
                columns[str(place)] = column.astype("float64")
                continue
            found = {value: f"c{code}" for code, value in enumerate(sorted(column.dropna().unique()))}
            columns[str(place)] = column.map(found)
            self._codes[str(place)] = {code: value for value, code in found.items()}
        self.coded = pd.DataFrame(columns)

    @property
    def places(self) -> list[str]:
        """The columns of categories, as they are called there."""
        return list(self._codes)

    def decode(self, coded: pd.DataFrame) -> pd.DataFrame:
        """A table that came back, with its own names and categories."""
        columns = {
            name: coded[str(place)].map(self._codes[str(place)]) if str(place) in self._codes else coded[str(place)]
            for place, name in enumerate(self._names)
        }
        return pd.DataFrame(columns)
