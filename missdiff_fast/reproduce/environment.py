"""Machine, versions and commit behind stored figures."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from missdiff_fast import __version__

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("numpy", "pandas", "scikit-learn", "xgboost", "sdmetrics")
_SOURCES = ("missdiff_fast", "csrc")


@lru_cache(maxsize=1)
def environment(device: str) -> dict[str, str]:
    """Describe the machine, the packages and this package.

    Parameters
    ----------
    device : str
        "cpu", or "cuda" and perhaps a number, as the models run on.

    Examples
    --------
    >>> sorted(environment("cpu"))
    ['commit', 'machine', 'versions']
    """
    machine = f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    if device != "cpu":
        machine += f"; {torch.cuda.get_device_name(device)}"
    packages = ", ".join(f"{name} {found}" for name in _PACKAGES if (found := version_of(name)))
    return {
        "machine": machine,
        "versions": f"missdiff_fast {__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
        + packages,
        "commit": commit(),
    }


def commit(sources: tuple[str, ...] = _SOURCES) -> str:
    """Commit of this package's repository, with a plus sign if ``sources`` have uncommitted changes.

    An installed package may lie in somebody else's repository, so only a repository whose root holds the package
    counts. Without one, the commit is the value of MISSDIFF_COMMIT, or "unknown".

    Examples
    --------
    >>> bool(commit())
    True
    """
    if output_of("git", "rev-parse", "--show-toplevel") != str(_ROOT):
        return os.environ.get("MISSDIFF_COMMIT", "unknown")
    changes = output_of("git", "status", "--porcelain", "-uno", "--", *sources)
    return output_of("git", "rev-parse", "--short", "HEAD") + ("+" if changes else "")


def version_of(package: str) -> str | None:
    """The version of an installed package; None if it is not installed.

    Examples
    --------
    >>> version_of("no-such-package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The processor's name; on Linux with its family and model, since a virtual machine may tell the brand alone.

    Examples
    --------
    >>> bool(processor())
    True
    """
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    of_first = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    name = of_first.get("model name") or platform.processor() or platform.machine()
    numbers = [
        f"{word} {of_first[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in of_first
    ]
    return f"{name} ({' '.join(numbers)})" if numbers else name


def output_of(*command: str) -> str:
    """The output of a command; "" if it fails or is missing.

    Examples
    --------
    >>> output_of("echo", "here")
    'here'
    """
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
