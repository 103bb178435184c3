"""The commands of ``missdiff``, one module each.

A module named in `NAMES` has ``HELP`` (one line), ``add_options(parser, common)`` and ``run(args)``, which returns None
or an exit code. pandas and torch are imported in ``run``, so that ``--help`` is fast.
"""

NAMES = ("plan", "fit", "sample", "impute", "mask", "evaluate", "info", "demo", "reproduce")
