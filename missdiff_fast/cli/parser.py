"""The parser of the command line, built from the modules in `missdiff_fast.cli.commands`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from missdiff_fast import __version__
from missdiff_fast.cli.commands import NAMES
from missdiff_fast.cli.completion import SHELLS, PrintCompletion


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line.

    Examples
    --------
    >>> build_parser().parse_args(["sample", "model.missdiff", "-n", "5"]).num_rows
    5
    """
    parser = _Parser(
        prog="missdiff",
        description="Train a diffusion model on a table with missing cells; draw synthetic rows from it, or "
        "fill the missing cells.",
        epilog="'missdiff COMMAND --help' shows the options of a command.",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"missdiff_fast {__version__}")
    parser.add_argument(
        "--print-completion",
        metavar="SHELL",
        choices=SHELLS,
        action=PrintCompletion,
        default=argparse.SUPPRESS,
        help=f"print a script for completion by a shell ({', '.join(SHELLS)}) and exit; needs the package shtab",
    )
    parser.set_defaults(debug=False)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name in NAMES:
        command = import_module(f"missdiff_fast.cli.commands.{name}")
        text = command.HELP
        options = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        common = options.add_argument_group("general options")
        common.add_argument("--debug", action="store_true", help="show the traceback of an error")
        command.add_options(options, common)
        options.set_defaults(run=command.run, options=dict(options._option_string_actions))
    return parser


def given_options(argv: Sequence[str] | None) -> frozenset[str]:
    """The destinations of the options that the arguments give, as against their defaults.

    Examples
    --------
    >>> sorted(given_options(["sample", "model.missdiff", "-n", "5", "--device", "auto"]))
    ['command', 'device', 'model', 'num_rows']
    """
    parser = build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for command in commands.choices.values():
        command._defaults.clear()
        for action in command._actions:
            action.default = argparse.SUPPRESS
    parser._defaults.clear()
    return frozenset(vars(parser.parse_args(argv)))


class _Help(argparse.HelpFormatter):
    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        # argparse does not count the indent of commands, and would put the longest on a line of its own.
        self._action_max_length += 2 * isinstance(action, argparse._SubParsersAction)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"missdiff: error: {message} (see '{self.prog} --help')\n")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Before Python 3.13, argparse drops the value of `--option=--`, and fails.
        if action.option_strings and arg_strings == ["--"]:
            return self._get_value(action, "--")
        return super()._get_values(action, arg_strings)
