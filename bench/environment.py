"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pandas as pd
import torch

import missdiff_fast
from missdiff_fast.ops._library import build_info

# What the benchmarks write themselves.
_RESULTS = ("bench/results", "docs", "README.md")


def commit() -> str:
    """The commit of the working tree, with a plus sign where it has been changed since (results do not count).

    Where there is no Git, what MISSDIFF_COMMIT says it is.
    """
    others = [":/", *(f":(top,exclude){path}" for path in _RESULTS)]
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changes = _git("status", "--porcelain", "-uno", "--", *others)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("MISSDIFF_COMMIT", "unknown")
    return head + ("+" if changes else "")


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def processor() -> str:
    """The processor's name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def facts() -> dict[str, Any]:
    """Machine, versions, threads and commit, to be stored with figures."""
    return {
        "machine": {"processor": processor(), "cores": os.cpu_count(), "simd": build_info()["simd"]},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "pandas": pd.__version__,
            "missdiff_fast": missdiff_fast.__version__,
        },
        "threads": torch.get_num_threads(),
        "commit": commit(),
    }


def describe(known: Mapping[str, Any] | None = None) -> str:
    """One line: machine, versions, commit; of this process, or of stored facts."""
    known = facts() if known is None else known
    machine, versions = known["machine"], dict(known["versions"])
    own = versions.pop("missdiff_fast")
    return (
        f"{machine['processor']}, {machine['cores']} cores, {known['threads']} threads, SIMD {machine['simd']}; "
        f"Python {versions.pop('python')}, {', '.join(f'{name} {version}' for name, version in versions.items())}, "
        f"missdiff_fast {own} at {known['commit']}"
    )


def markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown, numbers to four decimals."""
    cells = [
        [f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.itertuples(index=False)
    ]
    lines = [list(map(str, frame.columns)), ["---"] * frame.shape[1], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
