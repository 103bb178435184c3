"""Errors and warnings in the words of the command line."""

from __future__ import annotations

import re
import shlex
import sys
import traceback
from collections.abc import Collection, Mapping
from contextlib import suppress

from missdiff_fast import errors, remedies
from missdiff_fast._output import show

_OPTIONS = {
    "categorical_columns": "--categorical",
    "header": "--no-header",
    "keep_na_columns": "--keep-na",
    "models": "--model",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "rules": "--rule",
    "skip_lines": "--skip-line",
    "treatments": "--treat",
}
"""Options that are not named as their argument is."""

_AS_WRITTEN = {"fit": "--categorical", "plan": "--categorical", "evaluate": "--categorical", "mask": "--keep"}
"""The option by which a command reads a column as text."""

_TABLES = {"real": "REAL", "real_train": "REAL", "synthetic": "SYNTHETIC", "train": "SYNTHETIC", "test": "TEST"}

_CONVERSIONS: Mapping[remedies.Target, str] = {
    "plain": "write its cells as numbers, texts, truth values, dates or durations",
    "learnt": "write its cells as they were in fit",
    "one type": "make the cells one type",
    "utc": "write them in UTC",
    "datetime": "write all in one form, such as 2024-02-29 or 29.02.2024",
    "microseconds": "write them to the microsecond",
    "coarser unit": "use a coarser unit",
    "unordered": "give its dtype no order",
}


class UserError(errors.Structured):
    """An error that the user of the command can mend, told in one line."""

    def __init__(self, problem: str | errors.Text) -> None:
        super().__init__("command", problem)


class Wording:
    """Words terms for the users of one command.

    Parameters
    ----------
    command : str
        Its name; empty before the options are read.
    options : collection of str
        The options that it has.

    Examples
    --------
    >>> fit = Wording("fit", ["--drop", "--max-categories"])
    >>> fit(remedies.Drop(("id", "-x"))), fit(remedies.Adjust("raise", ("max_categories",)))
    ("drop the columns, --drop 'id' --drop='-x'", 'raise --max-categories')
    >>> fit(remedies.CapCategories()) is None  # the command has no such option
    True
    """

    def __init__(self, command: str = "", options: Collection[str] = ()) -> None:
        self._command, self._options = command, options

    def __call__(self, term: remedies.Term) -> str | None:
        """The term in the words of the command; None if the command has no such argument, table or remedy."""
        if isinstance(term, remedies.Argument):
            return self._option(term.name)
        if isinstance(term, remedies.Table):
            return _TABLES.get(term.role) if self._command == "evaluate" else None
        if not isinstance(term, remedies.Remedy):
            return None
        text = self._remedy(term)
        return term.conditional(text) if text else None

    def _option(self, argument: str) -> str | None:
        option = _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")
        return option if option in self._options else None

    def _remedy(self, remedy: remedies.Remedy) -> str | None:
        match remedy:
            case remedies.Do():
                return remedy.text
            case remedies.Pass():
                return self._pass(remedy)
            case remedies.LeaveOut():
                option = self._option(remedy.argument)
                return option and f"leave out {option}"
            case remedies.Adjust():
                options = [option for name in remedy.arguments if (option := self._option(name))]
                return f"{remedy.verb} {' or '.join(options)}" if options else None
            case remedies.Give():
                option = self._option(remedy.argument)
                return option and f"give the right {option}"
            case remedies.AtLeast():
                option = self._option(remedy.argument)
                return option and f"give a {option} of at least {remedy.least}"
            case remedies.Drop():
                return self._drop(remedy)
            case remedies.Treat():
                given = [f"{name}={treatment}" for name, treatment in remedy.treatments.items()]
                return f"pass {written('--treat', given)}" if "--treat" in self._options else None
            case remedies.Convert():
                return _CONVERSIONS[remedy.to]
            case remedies.FitAgain():
                return self._fit_again(remedy)
        return None

    def _pass(self, remedy: remedies.Pass) -> str | None:
        if remedy.argument == "string_columns" and self._command not in _AS_WRITTEN:
            return f"{remedy.goal} run missdiff fit again with {written('--categorical', remedy.value)}"
        # A value that fit did not see would be new to the model.
        if remedy.argument == "keep_na_columns" and self._command == "impute":
            return f"{remedy.goal} run missdiff fit again with {written('--keep-na', remedy.value)}"
        settings = []
        for one in (remedy, *remedy.more):
            option = _AS_WRITTEN[self._command] if one.argument == "string_columns" else self._option(one.argument)
            if one.argument == "header" and one.value:
                option = option and "--header"
            if option is None:
                return None
            settings.append(option if isinstance(one.value, bool) else written(option, one.value))
        return f"{remedy.goal} {' '.join(settings)}"

    def _drop(self, remedy: remedies.Drop) -> str | None:
        if "--drop" in self._options:
            return f"drop {remedy.noun}, {written('--drop', remedy.columns)}"
        if self._command == "mask":
            return f"copy {remedy.noun} as written, {written('--keep', remedy.columns)}"
        return None

    def _fit_again(self, remedy: remedies.FitAgain) -> str | None:
        if self._command in ("fit", "demo", "reproduce"):
            option = self._option(remedy.lower)
            return option and f"use a lower {option}"
        lower = f" with a lower --{remedy.lower.replace('_', '-')}" if remedy.lower else ""
        return f"run missdiff fit again{lower}"


def written(option: str, value: object) -> str:
    r"""An option with its value as a shell takes them; once for each item of a list, which are always quoted.

    Examples
    --------
    >>> print(written("--drop", ["a b", "it's", "--"]), written("--skip-rows", 2))
    --drop 'a b' --drop 'it'\''s' --drop='--' --skip-rows 2
    """
    several = list(value) if isinstance(value, (list, tuple)) else None
    words = []
    for text in map(str, [value] if several is None else several):
        # The parser takes a word that begins with "-" for an option.
        separator = "=" if text.startswith("-") else " "
        plain = several is None and " ".join(text.split()) == text
        words.append(f"{option}{separator}{shlex.quote(text) if plain else _quoted(text)}")
    return " ".join(words)


def _quoted(text: str) -> str:
    r"""A word for a shell. White space other than single spaces is escaped, because messages have none.

    >>> print(_quoted("it's"), _quoted("a  b"))
    'it'\''s' $'a\x20\x20b'
    """
    if " ".join(text.split()) == text:
        return "'" + text.replace("'", r"'\''") + "'"
    plain = text.replace("\\", r"\\").replace("'", r"\'")
    return "$'" + re.sub(r"\s", lambda found: "".join(rf"\x{byte:02x}" for byte in found[0].encode()), plain) + "'"


def print_error(error: Exception, wording: Wording, *, debug: bool) -> int:
    """Print an error in one line, and return the exit code that it means."""
    if debug:
        traceback.print_exception(error)
    text = _one_line(error, wording)
    if _is_out_of_memory(error):
        complain(f"error: not enough memory: {text}")
        return 2
    if isinstance(error, (errors.Structured, OSError, FloatingPointError)) or _is_refusal(error):
        complain(f"error: {text}")
        return 2
    complain(
        f"internal error: {type(error).__name__}: {text}. This is a fault of missdiff, not yours: please report it, "
        "with what 'missdiff info' prints and with what this command prints when --debug is added"
    )
    return 1


def _is_refusal(error: Exception) -> bool:
    """Whether the package itself raised the error, rather than a library that it calls."""
    if not isinstance(error, (ValueError, TypeError, ImportError)):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).partition(".")[0] == "missdiff_fast"


def _is_out_of_memory(error: Exception) -> bool:
    # torch, which is not imported here, raises a plain RuntimeError on the CPU and its own class on a GPU.
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "OutOfMemoryError" in names


def _one_line(error: Exception, wording: Wording) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return _joined(message(error, wording)) or type(error).__name__


def message(error: Exception, wording: Wording) -> str:
    """The text of an error or a warning for users of the command."""
    return error.worded(wording) if isinstance(error, errors.Structured) else str(error)


def show_warning(wording: Wording, warning: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line; with its first argument bound, it replaces `warnings.showwarning`."""
    text = message(warning, wording) if isinstance(warning, Warning) else warning
    complain(f"warning: {_joined(text)}")


def complain(text: str) -> None:
    """Print a line on stderr, if it can be written to: a terminal may have been closed."""
    if sys.stderr is not None:  # print would write to stdout
        with suppress(OSError):
            show(f"missdiff: {text}", sys.stderr)


def _joined(text: str) -> str:
    return " ".join(text.split())
