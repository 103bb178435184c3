"""Whether this process is the command ``missdiff``."""

from __future__ import annotations

is_command = False  # `missdiff_fast.cli.main` sets it
