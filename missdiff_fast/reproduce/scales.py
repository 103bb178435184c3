"""Sizes of a reproduction: rows, epochs, repetitions and grids."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from missdiff_fast.evaluate._models import Grid


@dataclass(frozen=True)
class Budget:
    """Sizes and steps of the generators on one data set. None is "all", or the method's own choice.

    Steps beyond ``max_steps`` are cut, with the learning rate's schedule fitted to what is left. ``stasy_max_steps`` is
    for 1,000 epochs of STaSy; where an experiment has fewer epochs, it is less in proportion.
    """

    train_rows: int | None = None
    test_rows: int | None = None
    every: int = 1
    epochs: int = 250
    max_steps: int | None = None
    diffusion_steps: int = 100
    channels: int = 64
    rows: int | None = None
    default_steps: int | None = None
    default_refine: bool = True
    default_rows: int | None = None
    stasy_max_steps: int | None = None
    stasy_finetune_epochs: int = 50
    stasy_warmup: int = 5000
    stasy_hidden: tuple[int, ...] = (256, 512, 1024, 1024, 512, 256)
    stasy_rows: int | None = None
    all_pairs: bool = True


@dataclass(frozen=True)
class ImputationBudget:
    """Sizes and steps of the imputers."""

    train_rows: int | None = None
    test_rows: int | None = None
    every: int = 1
    epochs: int = 250
    max_steps: int | None = None
    diffusion_steps: int = 100
    channels: int = 64
    draws: int = 100
    default_steps: int | None = None
    default_refine: bool = True
    csdi_rows: int | None = None
    csdi_epochs: int = 250
    gain_iterations: int = 10_000
    forest_trees: int = 100
    rounds: int = 10


@dataclass(frozen=True)
class Scale:
    """A whole reproduction's size; the defaults are the paper's, except as docs/reproduce.md lists.

    ``grid`` is that of `missdiff_fast.evaluate.utility`; None fits each model once with its library's defaults.
    ``ratios`` are the missing ratios of the figure; everything else has 0.2.
    """

    name: str
    repetitions: int = 3
    grid: Grid | None = "full"
    ratios: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    census: Budget = Budget()
    mimic4ed: Budget = Budget(diffusion_steps=150)
    bayesian_network: Budget = Budget()
    imputation: ImputationBudget = ImputationBudget()

    def budget(self, dataset: str) -> Budget:
        """The budget of "census", "mimic4ed" or "bayesian-network"."""
        budget: Budget = getattr(self, dataset.replace("-", "_"))
        return budget


# The fields in words, and the word for None.
_TEXTS = {
    "repetitions": "repetitions",
    "grid": "grid of the models that utility is measured by",
    "ratios": "missing ratios",
    "train_rows": "training rows",
    "test_rows": "test rows",
    "every": "one column kept of every",
    "epochs": "epochs of the paper's network",
    "max_steps": "steps of the paper's network at most",
    "diffusion_steps": "noise levels T",
    "channels": "channels of the paper's network",
    "rows": "synthetic rows of the paper's network",
    "default_steps": "steps of the default preset before refining",
    "default_refine": "refining of the default preset",
    "default_rows": "synthetic rows of the default preset",
    "stasy_max_steps": "steps of STaSy at most, for 1,000 epochs (for 250 a quarter)",
    "stasy_finetune_epochs": "epochs of STaSy's fine-tuning",
    "stasy_warmup": "steps of STaSy's warm-up",
    "stasy_hidden": "widths of STaSy's layers",
    "stasy_rows": "synthetic rows of STaSy",
    "all_pairs": "fidelity with all pairs of columns too",
    "draws": "draws that the paper's network and CSDI_T take the median of",
    "csdi_rows": "training rows of CSDI_T",
    "csdi_epochs": "epochs of CSDI_T",
    "gain_iterations": "steps of GAIN",
    "forest_trees": "trees of MissForest",
    "rounds": "rounds of MICE and MissForest at most",
}
_NONE = {
    "grid": "none, each fitted once with its library's defaults",
    "max_steps": "no limit",
    "stasy_max_steps": "no limit",
    "default_steps": "its own choice",
}

_TINY: dict[str, Any] = {
    "train_rows": 200,
    "test_rows": 100,
    "epochs": 1,
    "max_steps": 3,
    "diffusion_steps": 3,
    "channels": 8,
    "rows": 100,
    "default_steps": 5,
    "default_refine": False,
    "default_rows": 100,
    "stasy_max_steps": 4,
    "stasy_finetune_epochs": 0,
    "stasy_warmup": 1,
    "stasy_hidden": (16, 16),
    "stasy_rows": 100,
    "all_pairs": False,
}

SCALES = {
    "smoke": Scale(
        "smoke",
        repetitions=1,
        grid=None,
        ratios=(0.3, 0.6),
        census=Budget(every=2, **_TINY),
        mimic4ed=Budget(every=6, **_TINY),
        bayesian_network=Budget(**_TINY),
        imputation=ImputationBudget(
            train_rows=200,
            test_rows=60,
            every=2,
            epochs=1,
            max_steps=3,
            diffusion_steps=3,
            channels=8,
            draws=2,
            default_steps=5,
            default_refine=False,
            csdi_rows=64,
            csdi_epochs=1,
            gain_iterations=10,
            forest_trees=3,
            rounds=1,
        ),
    ),
    "short": Scale(
        "short",
        repetitions=1,
        grid="small",
        ratios=(0.1, 0.3, 0.5, 0.7, 0.9),
        census=Budget(
            max_steps=500,
            rows=1_024,
            default_rows=1_024,
            stasy_max_steps=1_500,
            stasy_finetune_epochs=0,
            stasy_warmup=150,
            stasy_rows=1_024,
        ),
        mimic4ed=Budget(
            train_rows=20_000,
            test_rows=5_000,
            max_steps=300,
            diffusion_steps=150,
            rows=512,
            default_rows=512,
            stasy_max_steps=6_000,
            stasy_finetune_epochs=0,
            stasy_warmup=150,
            stasy_rows=512,
            all_pairs=False,
        ),
        bayesian_network=Budget(max_steps=3_000),
        imputation=ImputationBudget(
            test_rows=512,
            max_steps=750,
            draws=5,
            csdi_rows=4_000,
            csdi_epochs=8,
            forest_trees=20,
            rounds=5,
        ),
    ),
    "full": Scale("full"),
}


def cuts(part: Scale | Budget | ImputationBudget, full: Scale | Budget | ImputationBudget) -> dict[str, str]:
    """List the fields in which a scale, or a budget, differs from another.

    Examples
    --------
    >>> cuts(Budget(rows=10, train_rows=5), Budget())["train_rows"]
    'training rows: 5 (full: all)'
    """
    names = [entry.name for entry in fields(part) if entry.name in _TEXTS]
    pairs = {name: (getattr(part, name), getattr(full, name)) for name in names}
    return {
        name: f"{_TEXTS[name]}: {_say(name, ours)} (full: {_say(name, theirs)})"
        for name, (ours, theirs) in pairs.items()
        if ours != theirs
    }


def _say(name: str, value: Any) -> str:
    if value is None:
        return _NONE.get(name, "all")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
