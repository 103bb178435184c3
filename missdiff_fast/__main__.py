"""``python -m missdiff_fast`` is the command ``missdiff``."""

import sys

if __name__ == "__main__":
    try:
        from missdiff_fast.cli import main

        sys.exit(main())
    except KeyboardInterrupt:
        # Before main began or after it returned.
        sys.exit(130)
