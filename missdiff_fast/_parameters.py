"""Parameters of a model: the constructor's arguments, the settings they choose, and their form in a model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from missdiff_fast._checks import check_count, check_positive
from missdiff_fast._estimator import BaseEstimator
from missdiff_fast.config import AnyConfig, Config, override
from missdiff_fast.config import preset as find_preset
from missdiff_fast.config.effort import budget_seconds, effort_settings
from missdiff_fast.errors import DataError, Text, argument_error
from missdiff_fast.remedies import Argument, LeaveOut
from missdiff_fast.rules import parse_rules
from missdiff_fast.table.schema import as_names

if TYPE_CHECKING:
    import torch
    from sklearn.utils import Tags

_UNSAVED = ("device", "backend", "verbose")  # of the process that computes, not of the model


class Parameters(BaseEstimator):
    """The constructor that `missdiff_fast.MissDiff` and `missdiff_fast.sklearn.MissDiffImputer` share.

    It stores its arguments unchanged, as scikit-learn requires; `configure` checks them when fit begins.
    """

    def __init__(
        self,
        *,
        preset: str = "default",
        effort: str = "default",
        budget: str | float | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        width: int | None = None,
        blocks: int | None = None,
        refine: int | bool | None = None,
        refits: int = 0,
        categorical_columns: Sequence[str | int] | None = None,
        treatments: Mapping[str | int, str] | None = None,
        rules: Sequence[str] = (),
        missing_values: Sequence[object] = (),
        structural_missing: str | None = None,
        max_categories: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        device: str | torch.device = "auto",
        backend: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.preset = preset
        self.effort = effort
        self.budget = budget
        self.steps = steps
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.width = width
        self.blocks = blocks
        self.refine = refine
        self.refits = refits
        self.categorical_columns = categorical_columns
        self.treatments = treatments
        self.rules = rules
        self.missing_values = missing_values
        self.structural_missing = structural_missing
        self.max_categories = max_categories
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.backend = backend
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def configure(parameters: Parameters) -> AnyConfig:
    """The preset's settings, with those that the parameters replace.

    Raises
    ------
    ValueError, TypeError
        A parameter or setting has a value that is not allowed, or is given twice.
    """
    config = find_preset(parameters.preset)
    default = isinstance(config, Config)
    paths = {
        "steps": ("training.steps", 1),
        "epochs": ("training.epochs", 1),
        "batch_size": ("training.batch_size", 1),
        "width": ("network.width" if default else "network.channels", 1),
        "blocks": ("network.blocks" if default else "network.layers", 0 if default else 1),
        "refine": ("refine.rounds", 0),
    }
    parse_rules(parameters.rules)
    refits = check_count("refits", parameters.refits, least=0)
    if parameters.max_categories is not None:
        check_count("max_categories", parameters.max_categories, least=2)
    keeps_structural(parameters)
    settings = {} if parameters.settings is None else parameters.settings
    if not isinstance(settings, Mapping):
        raise TypeError(f"settings must be a mapping from names to values, got {type(settings).__name__}")
    changes: dict[str, Any] = {}
    for name, (path, least) in paths.items():
        value = _rounds(parameters.refine) if name == "refine" else getattr(parameters, name)
        if value is not None:
            changes[path] = check_count(name, value, least=least)
            _check_once(name, path, settings)
    if parameters.learning_rate is not None:
        changes["training.learning_rate"] = check_positive("learning_rate", parameters.learning_rate)
        _check_once("learning_rate", "training.learning_rate", settings)
    if not default and changes.pop("refine.rounds", 0):
        raise _lacking(parameters, "refine", "refinement")
    if refits:
        if not default:
            raise _lacking(parameters, "refits")
        changes["refits.number"] = refits
        _check_once("refits", "refits.number", settings)
    if parameters.budget is not None:
        _check_once("budget", "training.budget", settings)
    changes = {**_effort_changes(parameters, default=default), **changes, **settings}
    lengths = [name for name in ("steps", "epochs", "budget") if changes.get(f"training.{name}") is not None]
    if len(lengths) > 1:
        template = "{one} and {other} both set the length of training: give one of them"
        raise DataError("length", Text(template, one=Argument(lengths[0]), other=Argument(lengths[1])))
    return override(config, changes)


def _effort_changes(parameters: Parameters, *, default: bool) -> dict[str, Any]:
    """The settings that effort and budget choose, by path."""
    changes = dict(effort_settings(parameters.effort))
    if parameters.budget is not None:
        changes["training.budget"] = budget_seconds(parameters.budget)
    if changes and not default:
        raise _lacking(parameters, "effort" if parameters.budget is None else "budget")
    return changes


def _lacking(parameters: Parameters, name: str, what: str = "") -> DataError:
    """The error of a parameter that the preset does not have; ``what`` is its effect, by default its name."""
    value = getattr(parameters, name)
    problem = f"preset {parameters.preset!r} has no {what or name}"
    return DataError(name, problem, value=value, remedy=LeaveOut(name, value))


def treatments(parameters: Parameters) -> dict[str | int, str]:
    """``treatments`` as a dictionary; TypeError if it is no mapping."""
    given: object = {} if parameters.treatments is None else parameters.treatments
    if not isinstance(given, Mapping):
        raise TypeError(f"treatments must be a mapping from columns to treatments, got {type(given).__name__}")
    return {_plain(name): treatment for name, treatment in given.items()}


def most_categories(parameters: Parameters) -> int:
    """``max_categories``; None is 10,000 for the default preset, and 100 for one whose network sees each category."""
    if parameters.max_categories is not None:
        return parameters.max_categories
    return 10_000 if isinstance(find_preset(parameters.preset), Config) else 100


def keeps_structural(parameters: Parameters) -> bool:
    """Whether structural holes stay: unless ``structural_missing`` is "fill"."""
    given = parameters.structural_missing
    if given not in (None, "keep", "fill"):
        raise argument_error("structural_missing", f"must be 'keep' or 'fill', got {given!r}", given)
    return given != "fill"


def to_json(parameters: Parameters) -> dict[str, Any]:
    """The parameters for a model file: NumPy's numbers as Python's, no NA among the markers of missing cells.

    A random generator is not stored: the loaded model's ``random_state`` is None, which also draws different rows at
    every call. Device, backend and verbosity are not stored either; `missdiff_fast.MissDiff.load` sets them.
    """
    plain = {name: _plain(value) for name, value in parameters.get_params(deep=False).items() if name not in _UNSAVED}
    if isinstance(plain["random_state"], (np.random.Generator, np.random.RandomState)):
        plain["random_state"] = None
    names = as_names(plain["categorical_columns"])
    plain["categorical_columns"] = None if names is None else [_plain(name) for name in names]
    plain["treatments"] = [list(pair) for pair in treatments(parameters).items()]
    plain["rules"] = list(plain["rules"])
    plain["missing_values"] = [_plain(value) for value in plain["missing_values"] if not pd.isna(value)]
    if plain["settings"] is not None:
        plain["settings"] = {path: _plain(value) for path, value in plain["settings"].items()}
    return plain


def from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments from a model file."""
    changed = {"missing_values": tuple(data["missing_values"]), "treatments": dict(data["treatments"]) or None}
    return {**data, **changed, "rules": tuple(data.get("rules", ()))}


def _rounds(refine: object) -> object:
    """The rounds of refinement: none for False, the preset's choice (None) for True."""
    if isinstance(refine, (bool, np.bool_)):
        return None if refine else 0
    return refine


def _check_once(name: str, path: str, settings: Mapping[str, Any]) -> None:
    if path in settings:
        template = "{argument} and the setting {path!r} are the same: give one of them"
        raise DataError("twice", Text(template, argument=Argument(name), path=path))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
