"""Where figures are stored, and what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from missdiff_fast import __version__
from missdiff_fast.ops._library import build_info
from missdiff_fast.reproduce import environment

RESULTS = Path(__file__).parent / "results"
OPS = RESULTS / "ops_cpu.json"  # of `make bench-save`: the run "full", and "checks" by processor
PROFILE = RESULTS / "profile.json"
SCALE = RESULTS / "mimic_scale.json"
CODEC = RESULTS / "codec_scale.json"
CENSUS = RESULTS / "census_speed.csv"
QUALITY = RESULTS / "census_quality.csv"
# A change anywhere but in what the benchmarks write themselves marks the commit.
_SOURCES = (":/", *(f":(top,exclude){path}" for path in ("bench/results", "docs", "README.md")))


def facts(device: torch.device | None = None) -> dict[str, Any]:
    """Machine, versions, threads and commit; of a GPU also its name, driver and compiler."""
    found: dict[str, Any] = {
        "machine": {"processor": environment.processor(), "cores": os.cpu_count(), "simd": build_info()["simd"]},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{name: environment.version_of(name) for name in ("numpy", "pandas")},
            "missdiff_fast": __version__,
        },
        "threads": torch.get_num_threads(),
        "commit": environment.commit(_SOURCES),
    }
    if device is None or device.type != "cuda":
        return found
    properties = torch.cuda.get_device_properties(device)
    driver = environment.output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    found["card"] = {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "driver": driver.partition("\n")[0],
    }
    found["versions"] |= {"cuda": torch.version.cuda or "none", "nvcc": _nvcc()}
    return found


def _nvcc() -> str:
    """Release of CUDA's compiler."""
    path = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    found = re.search(r"release ([\d.]+)", environment.output_of(path, "--version"))
    return found[1] if found else "unknown"


def describe(known: Mapping[str, Any] | None = None) -> str:
    """One line: machine, versions, commit; of this process, or of stored facts."""
    known = known or facts()
    machine, versions = known["machine"], dict(known["versions"])
    own = versions.pop("missdiff_fast")
    card = f"{known['card']['name']}, driver {known['card']['driver']}; " if "card" in known else ""
    return (
        f"{card}{machine['processor']}, {machine['cores']} cores, {known['threads']} threads, SIMD {machine['simd']}; "
        f"Python {versions.pop('python')}, {', '.join(f'{name} {number}' for name, number in versions.items())}, "
        f"missdiff_fast {own} at {known['commit']}"
    )


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
