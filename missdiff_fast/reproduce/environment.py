"""Machine, versions and commit behind stored figures."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from missdiff_fast import __version__
from missdiff_fast.ops._library import build_info

_ROOT = Path(__file__).resolve().parents[2]
_NVCC = Path("/usr/local/cuda/bin/nvcc")
_PACKAGES = ("numpy", "pandas", "scikit-learn", "xgboost", "sdmetrics")
_SOURCES = ("missdiff_fast", "csrc")


@lru_cache(maxsize=1)
def environment(device: str) -> dict[str, str]:
    """Describe the machine, the packages and this package.

    Parameters
    ----------
    device : str
        "cpu" or "cuda", as the models run on.

    Examples
    --------
    >>> sorted(environment("cpu"))
    ['commit', 'machine', 'versions']
    """
    machine = f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    if device != "cpu":
        machine += f"; {torch.cuda.get_device_name()}"
    packages = ", ".join(f"{name} {found}" for name in _PACKAGES if (found := _version(name)))
    return {
        "machine": machine,
        "versions": f"missdiff_fast {__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
        + packages,
        "commit": commit(),
    }


def facts(device: torch.device | None = None, sources: tuple[str, ...] = _SOURCES) -> dict[str, Any]:
    """Machine, versions, threads and commit, to store with benchmark figures.

    Parameters
    ----------
    device : torch.device, optional
        The GPU that the figures are of; its name, driver and compiler are added.
    sources : tuple of str
        Paths in which a change marks the commit.

    Examples
    --------
    >>> sorted(facts())
    ['commit', 'machine', 'threads', 'versions']
    """
    found: dict[str, Any] = {
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "simd": build_info()["simd"]},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{name: _version(name) for name in ("numpy", "pandas")},
            "missdiff_fast": __version__,
        },
        "threads": torch.get_num_threads(),
        "commit": commit(sources),
    }
    if device is None or device.type != "cuda":
        return found
    properties = torch.cuda.get_device_properties(device)
    found["card"] = {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0],
    }
    found["versions"] |= {"cuda": torch.version.cuda or "none", "nvcc": _nvcc()}
    return found


def describe(known: Mapping[str, Any]) -> str:
    """One line of stored `facts`: machine, versions and commit.

    Examples
    --------
    >>> describe(facts()).count(" at ")
    1
    """
    machine, versions = known["machine"], dict(known["versions"])
    own = versions.pop("missdiff_fast")
    card = f"{known['card']['name']}, driver {known['card']['driver']}; " if "card" in known else ""
    return (
        f"{card}{machine['processor']}, {machine['cores']} cores, {known['threads']} threads, SIMD {machine['simd']}; "
        f"Python {versions.pop('python')}, {', '.join(f'{name} {number}' for name, number in versions.items())}, "
        f"missdiff_fast {own} at {known['commit']}"
    )


def commit(sources: tuple[str, ...] = _SOURCES) -> str:
    """Commit of this package's repository, with a plus sign if ``sources`` have uncommitted changes.

    An installed package may lie in somebody else's repository, so only a repository whose root holds the package
    counts. Without one, the commit is the value of MISSDIFF_COMMIT, or "unknown".

    Examples
    --------
    >>> bool(commit())
    True
    """
    if _output("git", "rev-parse", "--show-toplevel") != str(_ROOT):
        return os.environ.get("MISSDIFF_COMMIT", "unknown")
    changes = _output("git", "status", "--porcelain", "-uno", "--", *sources)
    return _output("git", "rev-parse", "--short", "HEAD") + ("+" if changes else "")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _nvcc() -> str:
    """Release of CUDA's compiler."""
    path = shutil.which("nvcc") or str(_NVCC)
    found = re.search(r"release ([\d.]+)", _output(path, "--version"))
    return found[1] if found else "unknown"


def _output(*command: str) -> str:
    """The output of a command; "" if it fails or is missing."""
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
