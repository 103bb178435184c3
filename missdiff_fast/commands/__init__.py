"""What each command of ``missdiff`` takes and does.

A command is a module here, named in `NAMES`, with ``HELP`` (one line), ``add_options(parser, common)`` and
``run(args)``. What is heavy to import (pandas, torch) is imported in ``run``, so that help is quick.
"""

NAMES = ("fit", "sample", "impute", "mask", "evaluate", "info", "demo")
