from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.mark.parametrize("level", ["baseline", "avx2"])
def test_every_op_is_right_at_lower_instruction_sets(native: ModuleType, level: str) -> None:
    if level == "avx2" and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("the rest of the tests run at this level, or this processor is below it")
    if level == "baseline" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("the rest of the tests run at this level")
    environment = {**os.environ, "MISSDIFF_SIMD": level, "PYTHONPATH": os.pathsep.join(sys.path)}
    folder = Path(__file__).parent
    files = [
        str(folder / f"test_{op}.py")
        for op in (
            "random",
            "perturb",
            "loss",
            "step",
            "mlp_sample",
            "mlp_train_step",
            "codec_encode",
            "codec_decode",
        )
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "native_is_the_reference and not cuda",
        *files,
    ]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout
