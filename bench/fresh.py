"""A fresh process for each measurement, so that the system's peak memory is that of the measurement."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Steps:
    """Seconds of each step, and the peak memory by its end, in bytes: beside all that was there before."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def take(self, name: str, work: Callable[..., T], *arguments: object) -> T:
        """Do the work, and record its time and the peak memory."""
        began = time.perf_counter()
        result = work(*arguments)
        self.found[name] = {"seconds": time.perf_counter() - began, "peak": peak()}
        return result


def peak() -> int:
    """The most memory that the process has had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run_alone(script: str, **options: object) -> dict[str, Any]:
    """The last line that ``python script --child --NAME=VALUE ...`` prints, read as JSON."""
    given = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run([sys.executable, script, "--child", *given], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
