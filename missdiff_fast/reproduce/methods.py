"""The methods of the paper's tables, made with the settings of a scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from missdiff_fast.config import EpochsConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from missdiff_fast.reproduce.scales import Budget, ImputationBudget

_STASY_BATCH = 64


def generator_settings(method: str, budget: Budget, stasy_epochs: int | None) -> dict[str, Any]:
    """Settings of a generator at a scale: only numbers, since they are part of the run's key.

    Examples
    --------
    >>> from missdiff_fast.reproduce.scales import Budget
    >>> generator_settings("missdiff-default", Budget(), None)
    {'steps': None, 'refine': True, 'rows': None}
    """
    if method == "missdiff-default":
        return {"steps": budget.default_steps, "refine": budget.default_refine, "rows": budget.default_rows}
    if method.startswith("stasy"):
        return {
            "epochs": stasy_epochs,
            "max_steps": budget.stasy_max_steps and max(1, budget.stasy_max_steps * (stasy_epochs or 0) // 1000),
            "finetune_epochs": budget.stasy_finetune_epochs,
            "warmup": budget.stasy_warmup,
            "hidden": list(budget.stasy_hidden),
            "rows": budget.stasy_rows,
        }
    return {
        "epochs": budget.epochs,
        "max_steps": budget.max_steps,
        "diffusion_steps": budget.diffusion_steps,
        "channels": budget.channels,
        "rows": budget.rows,
    }


def imputer_settings(method: str, budget: ImputationBudget) -> dict[str, Any]:
    """Settings of an imputer at a scale.

    Examples
    --------
    >>> from missdiff_fast.reproduce.scales import ImputationBudget
    >>> imputer_settings("missforest", ImputationBudget())
    {'trees': 100, 'rounds': 10}
    """
    paper = {
        "epochs": budget.epochs,
        "max_steps": budget.max_steps,
        "diffusion_steps": budget.diffusion_steps,
        "channels": budget.channels,
        "draws": budget.draws,
    }
    csdi = {
        "epochs": budget.csdi_epochs,
        "diffusion_steps": budget.diffusion_steps,
        "channels": budget.channels,
        "draws": budget.draws,
        "train_rows": budget.csdi_rows,
    }
    settings: dict[str, dict[str, Any]] = {
        "mean-mode": {},
        "mice": {"rounds": budget.rounds},
        "missforest": {"trees": budget.forest_trees, "rounds": budget.rounds},
        "gain": {"iterations": budget.gain_iterations},
        "csdi-t": csdi,
        "missdiff-paper": paper,
        "missdiff-default": {"steps": budget.default_steps, "refine": budget.default_refine},
    }
    return settings[method]


def make_generator(method: str, settings: Mapping[str, Any], holes: pd.DataFrame, seed: int, device: str) -> Any:
    """Make the estimator, which has ``fit`` and ``sample``, for a table with holes."""
    common: dict[str, Any] = {"random_state": seed, "device": device, "verbose": False}
    complete = int(holes.notna().all(axis=1).sum())
    num_rows = complete if method.endswith("-delete") else len(holes)
    if method == "missdiff-default":
        return _missdiff(settings, common)
    if method in ("stasy-delete", "stasy-mean"):
        from missdiff_fast.baselines import STaSy

        epochs = settings["epochs"]
        if settings["max_steps"] is not None and num_rows:
            epochs = min(epochs, max(1, settings["max_steps"] // -(-num_rows // _STASY_BATCH)))
        return STaSy(
            "delete" if method.endswith("-delete") else "mean",
            epochs=epochs,
            finetune_epochs=settings["finetune_epochs"],
            warmup=settings["warmup"],
            hidden=tuple(settings["hidden"]),
            **common,
        )
    if method == "missdiff-paper":
        return _missdiff(settings, common, num_rows)
    from missdiff_fast.baselines import DiffDelete, DiffMean

    estimators = {"diff-delete": DiffDelete, "diff-mean": DiffMean}
    if method not in estimators:
        raise ValueError(f"{method} draws no rows")
    return estimators[method](**_paper(settings, num_rows), **common)


def make_imputer(method: str, settings: Mapping[str, Any], num_rows: int, seed: int, device: str) -> Any:
    """Make the estimator, which has ``fit`` and ``impute``, for a table of so many rows."""
    from missdiff_fast import baselines

    common: dict[str, Any] = {"random_state": seed, "verbose": False}
    if method == "missdiff-default":
        return _missdiff(settings, {**common, "device": device})
    if method == "missdiff-paper":
        return _missdiff(settings, {**common, "device": device}, num_rows)
    if method == "mice":
        return baselines.MICEImputer(max_rounds=settings["rounds"], **common)
    if method == "missforest":
        return baselines.MissForestImputer(settings["rounds"], settings["trees"], n_jobs=-1, **common)
    if method == "gain":
        return baselines.GAINImputer(settings["iterations"], device=device, **common)
    if method == "csdi-t":
        return baselines.CSDITImputer(
            epochs=settings["epochs"],
            steps=settings["diffusion_steps"],
            num_draws=settings["draws"],
            channels=settings["channels"],
            device=device,
            **common,
        )
    if method == "mean-mode":
        return baselines.MeanModeImputer(**common)
    raise ValueError(f"{method} fills no holes")


def paper_steps(epochs: int, max_steps: int | None, num_rows: int) -> int:
    """Count the steps of the paper's network on so many rows.

    Examples
    --------
    >>> paper_steps(250, None, 16_000), paper_steps(250, 500, 16_000), paper_steps(250, 500, 100)
    (62500, 500, 250)
    """
    steps, _ = EpochsConfig(epochs=epochs).resolve(max(num_rows, 1))
    return steps if max_steps is None else min(steps, max_steps)


def _missdiff(settings: Mapping[str, Any], common: Mapping[str, Any], num_rows: int | None = None) -> Any:
    from missdiff_fast.model import MissDiff

    if num_rows is None:
        return MissDiff(steps=settings["steps"], refine=None if settings["refine"] else 0, **common)
    return MissDiff(preset="paper", **_paper(settings, num_rows), **common)


def _paper(settings: Mapping[str, Any], num_rows: int) -> dict[str, Any]:
    others = {"diffusion.steps": settings["diffusion_steps"], "network.channels": settings["channels"]}
    if "draws" in settings:
        others["draws"] = settings["draws"]
    return {"steps": paper_steps(settings["epochs"], settings["max_steps"], num_rows), "settings": others}
