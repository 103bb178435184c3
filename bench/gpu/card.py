"""The card, and what it runs under: printed as JSON, or stored with the figures."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch
from environment import facts

NVCC = Path("/usr/local/cuda/bin/nvcc")


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def nvcc() -> str:
    """Release of CUDA's compiler."""
    path = shutil.which("nvcc") or (str(NVCC) if NVCC.exists() else "")
    found = re.search(r"release ([\d.]+)", _output(path, "--version")) if path else None
    return found[1] if found else "unknown"


def name(device: torch.device) -> str:
    """Of the card, or of the CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU {platform.machine()}"


def slug(card: str) -> str:
    """For the name of a file.

    >>> slug("NVIDIA H200")
    'nvidia-h200'
    """
    return re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-")


def describe(device: torch.device) -> dict[str, Any]:
    """Card, driver, versions and commit."""
    known = facts()
    card: dict[str, Any] = {"name": name(device)}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        card |= {
            "capability": f"{properties.major}.{properties.minor}",
            "memory": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
            "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0],
        }
    versions = {**known["versions"], "cuda": torch.version.cuda or "none", "nvcc": nvcc()}
    return {**known, "card": card, "versions": versions}


if __name__ == "__main__":
    print(json.dumps(describe(torch.device("cuda" if torch.cuda.is_available() else "cpu")), indent=1))
