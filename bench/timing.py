"""What is timed, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ROUNDS = 5
IMPLEMENTATIONS = ["native", "eager", "compile"]

Timer = Callable[[str, str, Callable[[], Any]], None]  # op, implementation, what to time
