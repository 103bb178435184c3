"""The extension `_cuda` on a machine without a card: it loads, has every op, and gets as far as starting a kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_host import compiler

from missdiff_fast.ops import _library

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The outcome of each op's call, by its name."""
    command = compiler()
    if not _library.load() or not _library._extensions("_cuda"):
        pytest.skip("the CUDA kernels were not built")
    if command is None or torch.cuda.is_available():
        pytest.skip("there is no C++ compiler" if command is None else "with a card the ops run for real")
    stub = tmp_path_factory.mktemp("cuda_glue") / "stub.so"
    subprocess.run([*command, "-x", "c", "-shared", "-fPIC", str(TESTS / "cuda_glue.c"), "-o", str(stub)], check=True)
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(TESTS / "cuda_glue.py"), str(stub)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_op_comes_to_its_launch(outcomes: Any) -> None:
    """Arguments are unpacked, checked and laid out; then there is no driver."""
    assert len({name.split()[0] for name in outcomes["rows"]}) == 20
    for name, told in outcomes["rows"].items():
        assert "a CUDA kernel could not be started on device 0: " in told, f"{name}: {told}"


def test_nothing_is_started_for_no_rows(outcomes: Any) -> None:
    always = ("masked_loss", "masked_noise_loss", "adamw", "mlp_loss", "mlp_train_steps", "column_sums", "store_next")
    for name, told in outcomes["empty"].items():
        if name.split()[0] in always:  # a value is written all the same
            assert "a CUDA kernel could not be started" in told, f"{name}: {told}"
        elif name.split("_")[0] in ("norm", "silu"):  # their results are arguments
            assert told == "done: ", f"{name}: {told}"
        else:
            assert told.startswith("done: [0"), f"{name}: {told}"


def test_what_a_kernel_could_not_bear_is_refused(outcomes: Any) -> None:
    assert "offsets hold 5 groups" in outcomes["wrong"]["states"]
    assert "weights hold 8 bytes, not the" in outcomes["wrong"]["weights"]
    assert "weights hold 8 numbers" in outcomes["wrong"]["flat weights"]
    assert "x must have adjacent numbers in each row" in outcomes["wrong"]["columns"]
    assert "level needs level_bias" in outcomes["wrong"]["level"]
    assert "places has size 5 in dimension 0, not 6" in outcomes["wrong"]["places"]
    assert "input has size 4 in dimension 1, not" in outcomes["wrong"]["input"]
