"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import numpy
import pandas as pd
import torch

import missdiff_fast
from missdiff_fast._library import build_info


def commit() -> str:
    """The commit of the working tree, with a plus sign where it has been changed since."""
    folder = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        )
        state = subprocess.run(
            ["git", "status", "--porcelain", "-uno"], cwd=folder, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if state.stdout.strip() else "")


def processor() -> str:
    """The processor's name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def describe() -> str:
    """One line: machine, versions, commit."""
    return (
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, SIMD {build_info()['simd']}; "
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}, "
        f"missdiff_fast {missdiff_fast.__version__} at {commit()}"
    )


def markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown, numbers to four decimals."""
    cells = [
        [f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.itertuples(index=False)
    ]
    lines = [list(map(str, frame.columns)), ["---"] * frame.shape[1], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
