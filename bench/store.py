"""Where figures are stored, and what they were measured on."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.reproduce import environment

RESULTS = Path(__file__).parent / "results"
OPS = RESULTS / "ops_cpu.json"  # the runs "full" and "check" of `make bench-save`
PROFILE = RESULTS / "profile.json"
SCALE = RESULTS / "mimic_scale.json"
CODEC = RESULTS / "codec_scale.json"
CENSUS = RESULTS / "census_speed.csv"
QUALITY = RESULTS / "census_quality.csv"
# A change anywhere but in what the benchmarks write themselves marks the commit.
_SOURCES = (":/", *(f":(top,exclude){path}" for path in ("bench/results", "docs", "README.md")))

facts = partial(environment.facts, sources=_SOURCES)


def describe(known: dict[str, Any] | None = None) -> str:
    """One line: machine, versions, commit; of this process, or of stored facts."""
    return environment.describe(facts() if known is None else known)


def markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown, numbers to four decimals."""
    cells = [[f"{x:.4f}" if isinstance(x, float) else str(x) for x in row] for row in frame.itertuples(index=False)]
    return markdown_table(list(map(str, frame.columns)), cells)


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown from strings."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rows))


def read(path: Path = OPS) -> dict[str, Any]:
    """The content of a file; empty if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path: Path, content: dict[str, Any]) -> None:
    """Replace a file in one move, so that it is whole at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def card_file(card: str) -> Path:
    """Where the figures of a card are stored.

    >>> card_file("NVIDIA H200").name
    'ops_nvidia-h200.json'
    """
    return RESULTS / f"ops_{'-'.join(re.findall('[a-z0-9]+', card.lower()))}.json"


def cards(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The full run of each card that figures are stored of."""
    return [read(path)["full"] for path in sorted(folder.glob("ops_*.json")) if path.name != OPS.name]
