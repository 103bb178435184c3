"""Runs `quality.command`: ``python bench/quality``."""

import sys
from pathlib import Path

# Python puts this folder first on the path; the modules of bench stand in the one above.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from quality.command import main  # noqa: E402

main()
