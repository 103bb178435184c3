"""``missdiff --print-completion SHELL``: a script by which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from missdiff_fast._output import show
from missdiff_fast.cli.places import read_output, read_place

SHELLS = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """Print the script and exit; with code 2 where shtab, which writes it, is not installed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Print the script for the shell ``values``."""
        try:
            import shtab
        except ImportError:
            parser.exit(2, "missdiff: error: --print-completion needs the package 'shtab': pip install shtab\n")
        _mark_files(parser, shtab.FILE, shtab.DIRECTORY)
        show(shtab.complete(parser, shell=values))
        parser.exit()


def _mark_files(parser: argparse.ArgumentParser, file: object, folder: object) -> None:
    """Mark the arguments that are files or folders, which have the type Path."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_files(command, file, folder)
        elif action.type in (Path, read_place, read_output):
            action.complete = folder if action.metavar == "FOLDER" else file  # type: ignore[attr-defined]
