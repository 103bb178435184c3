"""Where figures are kept, to be read by report.py and by the next check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
OPS = RESULTS / "ops_cpu.json"  # the runs "full" and "check" of `make bench-save`
PROFILE = RESULTS / "profile.json"
SCALE = RESULTS / "mimic_scale.json"
CODEC = RESULTS / "codec_scale.json"
CENSUS = RESULTS / "census_speed.csv"
QUALITY = RESULTS / "census_quality.csv"


def read(path: Path = OPS) -> dict[str, Any]:
    """What a file holds; nothing where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def cards(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """What was measured on each card, as bench/gpu/check.sh stores it."""
    return [read(path) for path in sorted(folder.glob("gpu-*.json"))]


def write(path: Path, content: dict[str, Any]) -> None:
    """Replace a file."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
