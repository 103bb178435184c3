"""The plain PyTorch backend needs no native code: it works where the compiled extension is broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import missdiff_fast

BUILT = {"native": "yes", "torch": "2.12.9", "torch_target": "2.10", "python": "3.99.4", "version": "9.8.7"}

SET_UP = """
import pickle
import sys
import numpy as np
import pandas as pd
from missdiff_fast import MissDiff

random = np.random.default_rng(0)
frame = pd.DataFrame({"x": random.normal(size=60), "n": random.integers(9, size=60)})
frame["c"] = random.choice(["a", "b"], 60)
frame.loc[::5, "x"] = np.nan
frame.loc[1::7, "c"] = None


def fit(preset, backend):
    small = {"blend.rows_per_feature": 0, "calibration.rounds": 0}
    settings = {"diffusion.steps": 4, "draws": 2} if preset == "paper" else small
    small = {"preset": preset, "steps": 6, "width": 8, "blocks": 1, "settings": settings, "verbose": False}
    return MissDiff(**small, backend=backend, device="cpu", random_state=0).fit(frame)
"""

REFERENCE = """
for preset in ("default", "paper"):
    model = fit(preset, "reference")
    rows = model.sample(7)
    assert len(rows) == 7
    given = pd.DataFrame({"c": ["a", "b", "b"]})
    assert model.sample(given=given)["c"].tolist() == ["a", "b", "b"]
    filled = model.impute(frame)
    assert not filled.isna().any().any()
    assert filled["n"].tolist() == frame["n"].tolist()
    assert not any(draw.isna().any().any() for draw in model.impute_draws(frame, num_draws=2))
    chance = model.predict_proba(frame, "c")
    assert list(chance) == ["a", "b"]
    assert np.allclose(chance.sum(axis=1), 1)
    assert np.isfinite(model.score_samples(frame, num_draws=2)).all()
    assert pickle.loads(pickle.dumps(model)).sample(7).equals(rows)
    model.save("model.missdiff")
    assert MissDiff.load("model.missdiff", device="cpu", backend="reference").sample(7).equals(rows)
assert "missdiff_fast._C" not in sys.modules
print("done")
"""

BASELINES = """
from missdiff_fast import baselines

small = {"random_state": 0, "verbose": False}
imputers = [
    baselines.MeanModeImputer(**small),
    baselines.MICEImputer(max_rounds=1, **small),
    baselines.GAINImputer(iterations=2, **small),
    baselines.CSDITImputer(epochs=1, num_draws=1, steps=2, channels=8, layers=1, heads=1, device="cpu", **small),
]
for imputer in imputers:
    filled = imputer.fit_impute(frame)
    assert not filled.isna().any().any(), imputer
    assert filled["n"].tolist() == frame["n"].tolist()
for complete in ("delete", "mean"):
    stasy = baselines.STaSy(complete, epochs=1, finetune_epochs=1, hidden=(8, 8), device="cpu", **small).fit(frame)
    assert list(stasy.sample(3)) == list(frame)
assert "missdiff_fast._C" not in sys.modules
print("done")
"""

OTHERS = """
for backend in ("native", "auto"):
    try:
        fit("default", backend)
    except ImportError as error:
        print(backend, str(error))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package whose extension is no library."""
    folder = tmp_path_factory.mktemp("broken")
    copy = folder / "missdiff_fast"
    hidden = shutil.ignore_patterns("_C.*", "_cuda.*", "__pycache__")
    shutil.copytree(Path(missdiff_fast.__file__).parent, copy, ignore=hidden)
    (copy / f"_C{EXTENSION_SUFFIXES[0]}").write_text("not a library")
    (copy / "_build.json").write_text(json.dumps(BUILT))
    return folder


def run(folder: Path, program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", SET_UP + program]
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


def test_the_reference_works(folder: Path) -> None:
    assert run(folder, REFERENCE) == "done\n"


def test_the_baselines_work(folder: Path) -> None:
    assert run(folder, BASELINES) == "done\n"


def test_the_other_backends_tell_what_is_broken(folder: Path) -> None:
    told = run(folder, OTHERS).splitlines()
    assert [line.split()[0] for line in told] == ["native", "auto"]
    assert all("native extension does not load" in line and "pip install" in line for line in told)
