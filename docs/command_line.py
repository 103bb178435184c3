"""Writes docs/reference/command-line.md from the command's parser.

    python docs/command_line.py

A test holds the page to the parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from missdiff_fast.cli import build_parser

PAGE = Path(__file__).parent / "reference" / "command-line.md"
_INTRODUCTION = """# Command line

<!-- Written by docs/command_line.py. -->

Results go to standard output, messages and progress to standard error. Exit codes: 0, done; 1, a fault of missdiff, or
a run of `reproduce` that failed; 2, an error that you can correct; 130, interrupted by Ctrl-C; 143, ended by SIGTERM;
129, by SIGHUP (the terminal was closed).
"""


def render() -> str:
    """The page, in Markdown."""
    return "\n".join([_INTRODUCTION, *(line for name, parser in _commands() for line in _section(name, parser))])


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from (f"## missdiff {name}", "", parser.description or "", "")
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
        if actions:
            title = group.title or ""
            yield from (f"**{title[:1].upper()}{title[1:]}**", "", "| | |", "|---|---|")
            yield from (f"| {_name(action)} | {_help(action)} |" for action in actions)
            yield ""


def _name(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"`{value}`" + (" (optional)" if action.nargs == "?" else "")
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    takes = "" if action.nargs == 0 else f" {action.metavar or choices or value}"
    required = " (required)" if action.required else ""
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings) + required


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": "missdiff"}
    return text.replace("|", "\\|")


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
