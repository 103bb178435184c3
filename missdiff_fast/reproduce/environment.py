"""What figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from missdiff_fast import __version__

_PACKAGES = ("numpy", "pandas", "scikit-learn", "xgboost", "sdmetrics")


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
        "commit": _commit(),
    }


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


def _commit() -> str:
    """The commit of the package's own repository, with a plus sign where it has been changed; or "unknown"."""
    root = Path(__file__).resolve().parents[2]
    if _git(root, "rev-parse", "--show-toplevel") != str(root):
        return "unknown"  # an installed package may lie in somebody else's repository
    changed = _git(root, "status", "--porcelain", "-uno", "--", "missdiff_fast", "csrc")
    return _git(root, "rev-parse", "--short", "HEAD") + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
