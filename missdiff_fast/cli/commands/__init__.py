"""What each command of ``missdiff`` takes and does.

A command is a module here, named in `NAMES`, with ``HELP`` (one line), ``add_options(parser, common)`` and
``run(args)``, which gives None or an exit code. What is heavy to import (pandas, torch) is imported in ``run``, so that
help is quick.
"""

NAMES = ("fit", "sample", "impute", "mask", "evaluate", "info", "demo", "reproduce")
