"""What this process is: the command ``missdiff`` or a program, alone or one of several on the machine."""

from __future__ import annotations

import os

is_command = False  # `missdiff_fast.cli.main` sets it


def local_rank() -> int:
    """The number of this process among those that torchrun started on this machine, from 0; 0 for a process alone.

    Other launchers set the same variable, LOCAL_RANK.

    >>> local_rank() >= 0
    True
    """
    value = os.environ.get("LOCAL_RANK", "")
    return int(value) if value.isascii() and value.isdigit() else 0
