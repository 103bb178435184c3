"""Options of a command from a TOML file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from missdiff_fast.cli.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Tables whose entries are values of a repeatable option, NAME=VALUE.
_TABLES = {"treatments": "--treat", "settings": "--setting"}
_LISTS = {"rules": "--rule"}  # keys that are not named as their repeatable option
_ON_THE_COMMAND_LINE = ("config", "debug", "help", "output", "rule", "setting", "treat")
_RIVALS = dict.fromkeys(("steps", "budget", "epochs"), ("steps", "budget", "epochs"))  # of which one can be given


def apply_config(args: argparse.Namespace) -> None:
    """Give the options that the command line leaves out the values that ``args.config`` has.

    The keys are the names of the options, such as ``missing-values``, and ``rules``, the list of those of --rule. The
    tables ``treatments`` and ``settings`` hold the values of --treat and --setting. Lists are joined with those of the
    command line, whose options count more.

    Raises
    ------
    UserError
        The file cannot be read; it has an unknown key, or a value that the option does not take.
    """
    path = args.config
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"--config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path} is no TOML file: {error}") from error
    here = {
        action.dest: getattr(args, action.dest)
        for action in args.options.values()
        if action.dest in args.on_command_line
    }
    left_out = {*here.get("categorical", ()), *here.get("drop", ())}
    taken: dict[str, str] = {}
    for key, value in config.items():
        option = _TABLES.get(key) or _LISTS.get(key, f"--{key}")
        action = args.options.get(option)
        if action is None or key in _ON_THE_COMMAND_LINE:
            known = sorted([*_LISTS, *(name[2:] for name in args.options if name.startswith("--"))])
            raise UserError(
                f"--config {path}: {key!r} is no option of a file; the file can have the tables "
                f"{' and '.join(_TABLES)}, and {', '.join(name for name in known if name not in _ON_THE_COMMAND_LINE)}"
            )
        rivals = _RIVALS.get(action.dest, (action.dest,))
        other = next((taken[dest] for dest in rivals if dest in taken), None)
        if other is not None:
            raise UserError(f"--config {path}: {other!r} and {key!r} set the same; give one of them")
        taken[action.dest] = key
        if key in _TABLES:
            pairs = _pairs(value, key, path)
            if key == "treatments":
                pairs = [pair for pair in pairs if pair.rpartition("=")[0] not in left_out]
            setattr(args, action.dest, [*pairs, *getattr(args, action.dest)])
        elif _is_repeatable(action):
            setattr(args, action.dest, [*_value(value, action, key, path), *here.get(action.dest, ())])
        elif not args.on_command_line.intersection(rivals):
            setattr(args, action.dest, _value(value, action, key, path))


def _pairs(table: object, key: str, path: object) -> list[str]:
    """The entries of a table as NAME=VALUE. An unquoted name with points is a table within, as TOML reads it."""
    if not isinstance(table, Mapping):
        raise UserError(f"--config {path}: {key!r} must be a table, [{key}]")
    pairs = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            pairs += [f"{name}.{pair}" for pair in _pairs(value, key, path)]
        else:
            try:
                pairs.append(f"{name}={value if isinstance(value, str) else json.dumps(value)}")
            except TypeError:
                raise UserError(f"--config {path}: {name!r} cannot be {value}") from None
    return pairs


def _value(value: object, action: argparse.Action, key: str, path: object) -> Any:
    """The value as the option's own parser gives it."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UserError(f"--config {path}: {key!r} must be true or false, not {value!r}")
        return action.const if value else action.default
    if _is_repeatable(action):
        if not isinstance(value, list) or not all(type(one) in (str, int) for one in value):
            raise UserError(f"--config {path}: {key!r} must be a list of texts, not {value!r}")
        return [_parsed(one, action, key, path) for one in value]
    if isinstance(value, (Mapping, bool, list)):
        raise UserError(f"--config {path}: {key!r} must be one value, not {value!r}")
    parsed = _parsed(value, action, key, path)
    if action.choices is not None and parsed not in action.choices:
        raise UserError(f"--config {path}: {key!r} must be one of {', '.join(map(str, action.choices))}, not {value!r}")
    return parsed


def _is_repeatable(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction)


def _parsed(value: object, action: argparse.Action, key: str, path: object) -> Any:
    try:
        return action.type(str(value)) if callable(action.type) else str(value)
    except ValueError:
        raise UserError(f"--config {path}: {key!r} cannot be {value!r}") from None
