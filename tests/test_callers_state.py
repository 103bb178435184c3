"""What belongs to the caller's process stays as it is: random states, default dtype, threads, filters of warnings."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from commands import raises

from missdiff_fast import MissDiff, baselines, datasets, evaluate, missingness, table
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.device import plain_settings
from missdiff_fast.cli import main
from missdiff_fast.diffusion.process import variance_preserving
from missdiff_fast.reproduce.runner import reproduce
from missdiff_fast.theory import MaskedGaussian, drawn_moments

_SMALL: dict[str, Any] = {"steps": 2, "width": 8, "blocks": 1, "refine": 0, "random_state": 0}
_PAPER: dict[str, Any] = {
    "preset": "paper",
    "steps": 1,
    "width": 8,
    "blocks": 1,
    "random_state": 0,
    "settings": {"network.heads": 1, "diffusion.steps": 2, "draws": 2},
}
_BASELINES: dict[str, dict[str, Any]] = {
    "CSDITImputer": {"epochs": 1, "num_draws": 2, "steps": 3, "channels": 8, "heads": 2, "layers": 1},
    "DiffDelete": _PAPER,
    "DiffMean": _PAPER,
    "GAINImputer": {"iterations": 2},
    "MICEImputer": {"max_rounds": 1},
    "MeanModeImputer": {},
    "MissForestImputer": {"max_rounds": 1, "num_trees": 2},
    "STaSy": {"complete": "mean", "epochs": 1, "finetune_epochs": 0, "hidden": (8,), "batch_size": 32, "warmup": 1},
}


def _rows() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    x = draw.normal(size=80).round(2)
    rows = pd.DataFrame({"x": x, "z": (x + draw.normal(size=80)).round(2), "y": np.where(x > 0, "a", "b")})
    rows.iloc[::7, 0] = np.nan
    rows.iloc[1::9, 2] = None
    return rows


ROWS = _rows()
WHOLE = ROWS.assign(x=ROWS["x"].fillna(0), y=ROWS["y"].fillna("a"))
OBSERVED = ROWS.notna().to_numpy()


def _model(name: str) -> Callable[[Path], object]:
    """A call of every method of a fitted model, copied, stored and loaded."""

    def call(folder: Path) -> None:
        model = MissDiff(**(_SMALL if name == "default" else _PAPER)).fit(ROWS)
        model.save(folder / "m")
        (folder / "p").write_bytes(pickle.dumps(model))
        for same in (model, pickle.loads((folder / "p").read_bytes()), copy.deepcopy(model)):
            same.sample(3, random_state=np.random.default_rng(0))
        model = MissDiff.load(folder / "m")
        model.sample(3, given={"x": 0.5})
        model.impute(ROWS)
        model.impute_draws(ROWS, 2)
        model.predict_proba(ROWS, "y")
        model.score_samples(ROWS)
        if name == "default":
            model.sample(3, missing=True)

    return call


def _refitted(_: Path) -> None:
    settings = {"refits.number": 2, "training.patience": 1}
    model = MissDiff(**{**_SMALL, "refine": 1, "steps": 60}, settings=settings).fit(pd.concat([ROWS] * 4))
    model.impute_draws(ROWS, 2)
    model.sample(3, random_state=None)


def _sklearn(_: Path) -> None:
    from missdiff_fast.sklearn import MissDiffImputer

    MissDiffImputer(**_SMALL).fit_transform(ROWS)


def _baseline(name: str) -> Callable[[Path], object]:
    def call(_: Path) -> None:
        settings = {"random_state": 0, **_BASELINES[name], "verbose": False}
        fitted: Any = getattr(baselines, name)(**settings).fit(ROWS)
        if hasattr(fitted, "impute"):
            fitted.impute(ROWS)
        else:
            fitted.sample(3)

    return call


def _mimic4ed(folder: Path) -> None:
    rows = datasets.simulate_mimic4ed(50, random_state=0)
    rows[["triage_temperature", "ed_temperature_last"]] = rows[["triage_temperature", "ed_temperature_last"]] * 1.8 + 32
    rows["ed_los"] = pd.to_timedelta(rows["ed_los"], unit="h").astype(str)
    rows.to_csv(folder / "master.csv", index=False)
    datasets.load_mimic4ed(folder / "master.csv")
    datasets.simulate_mimic4ed(20)


def _files(folder: Path) -> None:
    for name in ("t.csv", "t.csv.gz", "t.parquet", "t.feather"):
        table.write_table(ROWS, folder / name)
        table.read_table(folder / name)


def _codec(_: Path) -> None:
    cells = table.read_frame(ROWS)
    table.Codec.fit(cells, ops=ReferenceBackend()).encode(cells, seed=0)
    table.cap_categories(ROWS["y"], 1)


def _theory(_: Path) -> None:
    pair = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    gaussian = MaskedGaussian(torch.zeros(2, dtype=torch.float64), pair, missing=0.5)
    drawn_moments(gaussian, variance_preserving(3, 1e-4, 0.5), rows=10)


def _command(folder: Path) -> None:
    ROWS.to_csv(folder / "t.csv", index=False)
    lines = (
        "fit {f}/t.csv -o {f}/m --steps 2 --seed 0 --no-refine",
        "sample {f}/m -n 5 -o {f}/s.csv",
        "impute {f}/m {f}/t.csv -o {f}/i.csv",
        "info {f}/m",
        "mask {f}/t.csv -o {f}/holes.csv --ratio 0.1",
        "evaluate {f}/i.csv {f}/s.csv",
        "fit {f}/absent.csv -o {f}/n",
    )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        codes = [main(line.format(f=folder).split()) for line in lines]
    assert codes == [0] * 6 + [2]


def _reproduce(folder: Path) -> None:
    reproduce(["imputation"], folder, scale="smoke", methods=["gain"], repetitions=1, verbose=False)


_CALLS: dict[str, Callable[[Path], object]] = {
    **{f"MissDiff {preset}": _model(preset) for preset in ("default", "paper")},
    "MissDiff refits": _refitted,
    "MissDiffImputer": _sklearn,
    **{f"baselines.{name}": _baseline(name) for name in _BASELINES},
    "baselines.delete_incomplete": lambda _: baselines.delete_incomplete(ROWS),
    "datasets.bayesian_network": lambda _: datasets.bayesian_network(20),
    "datasets.bayesian_network_split": lambda _: datasets.bayesian_network_split(),
    "datasets.load_census, census_split": lambda _: (datasets.load_census(), datasets.census_split()),
    "datasets.simulate_mimic4ed, load_mimic4ed": _mimic4ed,
    "evaluate.detection": lambda _: evaluate.detection(WHOLE, WHOLE),
    "evaluate.draw_errors": lambda _: evaluate.draw_errors(WHOLE, [WHOLE, WHOLE], OBSERVED),
    "evaluate.draw_scores": lambda _: evaluate.draw_scores(WHOLE, [WHOLE, WHOLE], OBSERVED),
    "evaluate.expected_coverage": lambda _: evaluate.expected_coverage(5),
    "evaluate.fidelity_details": lambda _: evaluate.fidelity_details(WHOLE, WHOLE),
    "evaluate.fidelity": lambda _: evaluate.fidelity(WHOLE, WHOLE),
    "evaluate.fill_mean_mode": lambda _: evaluate.fill_mean_mode(ROWS),
    "evaluate.imputation": lambda _: evaluate.imputation(WHOLE, WHOLE, OBSERVED),
    "evaluate.imputation_errors": lambda _: evaluate.imputation_errors(WHOLE, WHOLE, OBSERVED),
    "evaluate.overimputation": lambda _: evaluate.overimputation(MissDiff(**_SMALL).fit(ROWS), ROWS, num_draws=2),
    "evaluate.precision_recall": lambda _: evaluate.precision_recall(WHOLE, WHOLE),
    "evaluate.protocol": lambda _: evaluate.protocol(WHOLE[::2], WHOLE[1::2], "y", model=MissDiff(**_SMALL), seeds=[0]),
    "evaluate.protocol_errors": lambda _: evaluate.protocol_errors(WHOLE, WHOLE),
    "evaluate.report, format_report": lambda _: evaluate.format_report(evaluate.report(WHOLE, WHOLE)),
    "evaluate.row_energy": lambda _: evaluate.row_energy(WHOLE, [WHOLE, WHOLE], OBSERVED),
    "evaluate.utility": lambda _: evaluate.utility(WHOLE, WHOLE, "y", n_jobs=2),
    "missingness.hide": lambda _: missingness.hide(WHOLE, "mar", 0.2),
    "missingness.missing_probability": lambda _: missingness.missing_probability(WHOLE, "nmar", 0.2),
    "missingness.observed_mask": lambda _: missingness.observed_mask(WHOLE, "independent", 0.2),
    "table.read_table, write_table": _files,
    "table.Codec, read_frame, cap_categories": _codec,
    "theory": _theory,
    "command": _command,
    "reproduce": _reproduce,
}
_NEEDS = ("matplotlib", "sdmetrics.single_table", "sklearn.ensemble", "xgboost")


def _state() -> dict[str, object]:
    numpy = np.random.get_state(legacy=True)
    signals = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    return {
        "torch's random state": torch.get_rng_state().tolist(),
        "NumPy's random state": [part.tolist() if isinstance(part, np.ndarray) else part for part in numpy],
        "Python's random state": random.getstate(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "precision of products": torch.get_float32_matmul_precision(),
        "filters of warnings": [str(each) for each in warnings.filters],
        "display of warnings": warnings.showwarning,
        "NumPy's errors": np.geterr(),
        "NumPy's printing": str(np.get_printoptions()),
        "pandas' options": [pd.get_option(name) for name in ("mode.copy_on_write", "display.width")],
        "signal handlers": [signal.getsignal(number) for number in signals],
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "threads that run": {thread.name for thread in threading.enumerate() if not thread.daemon},
    }


@contextlib.contextmanager
def _callers_own() -> Iterator[None]:
    """Settings that no code of the package would choose, restored on exit."""
    torch.set_default_dtype(torch.float64)
    try:
        with np.errstate(divide="print"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="of the caller's")
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(_CALLS))
def test_the_state_of_the_process_stays_as_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in _NEEDS:  # whose own imports may change it
        pytest.importorskip(package)
    # Where there is one thread, setting one would not show in the state.
    monkeypatch.setattr(torch, "set_num_threads", raises(AssertionError("the package sets torch's threads")))
    with _callers_own():
        before = _state()
        _CALLS[name](tmp_path)
        after = _state()
    assert [what for what in before if before[what] != after[what]] == []


@pytest.mark.parametrize("module", [baselines, datasets, evaluate, missingness])
def test_every_public_function_is_among_them(module: Any) -> None:
    called = {word for name in _CALLS for word in name.replace(",", "").replace(f"{module.__name__[14:]}.", "").split()}
    functions = [name for name in module.__all__ if callable(getattr(module, name)) and not name.endswith("Error")]
    types = {"Mechanism", "Target"}
    assert set(functions) - types - called == set()


def test_the_last_of_several_threads_restores_the_default_dtype() -> None:
    within, left = threading.Event(), threading.Event()
    seen = []

    def work() -> None:
        with plain_settings():
            within.set()
            left.wait(60)
            seen.append(torch.get_default_dtype())

    with _callers_own():
        worker = threading.Thread(target=work)
        with plain_settings():
            worker.start()
            within.wait(60)
        left.set()
        worker.join()
        assert (seen, torch.get_default_dtype()) == ([torch.float32], torch.float64)
