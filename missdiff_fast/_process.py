"""What this process is."""

from __future__ import annotations

is_command = False  # whether it is the command ``missdiff``, which ends when the command has run
