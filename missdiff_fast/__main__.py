"""``python -m missdiff_fast`` is the command ``missdiff``."""

import sys

from missdiff_fast.cli import main

if __name__ == "__main__":
    sys.exit(main())
