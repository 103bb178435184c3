"""Registers, spills and shared memory of the CUDA kernels, as the build in this folder took them."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

TEXT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN8missdiff4cuda8run_gridINS0_6RandomILb1EEEEEvNT_4ArgsE' for 'sm_90'
ptxas info    : Function properties for _ZN8missdiff4cuda8run_gridINS0_6RandomILb1EEEEEvNT_4ArgsE
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 16 bytes cumulative stack size, 128 bytes smem
ptxas info    : Compile time = 37.943 ms
"""
NAME = "run_grid<Random<true> >"
TAKEN = {"registers": 32, "stack": 16, "spills": 32, "shared": 128}


@pytest.fixture(scope="module")
def resources() -> ModuleType:
    path = Path(__file__).parent.parent / "bench" / "gpu" / "resources.py"
    spec = importlib.util.spec_from_file_location("gpu_resources", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_ptxas_tells_is_read(resources: ModuleType) -> None:
    ((architecture, _, taken),) = resources.parse(TEXT)
    assert (architecture, taken) == ("sm_90", TAKEN)


def test_more_than_is_stored_is_told(resources: ModuleType) -> None:
    stored = {"sm_90": {NAME: TAKEN}}
    assert not list(resources.complaints(stored, stored))
    assert not list(resources.complaints({"sm_80": {NAME: TAKEN}}, stored))  # of which nothing is stored
    more = {"sm_90": {NAME: TAKEN | {"registers": 33}}}
    assert list(resources.complaints(more, stored)) == [f"sm_90: {NAME} takes 33 of registers, not the 32 stored"]
    assert "is not in" in next(resources.complaints(stored, {"sm_90": {}}))
    assert "no longer built" in next(resources.complaints({"sm_90": {}}, stored))


def test_the_build_takes_no_more_than_is_stored(resources: ModuleType) -> None:
    if not resources.logs():
        pytest.skip("no build with MISSDIFF_CUDA=on and CMAKE_ARGS=-DMISSDIFF_RECORD_RESOURCES=ON in this folder")
    if shutil.which("c++filt") is None:
        pytest.skip("there is no c++filt")
    version, stored = resources.stored()
    if version != resources.compiler():
        pytest.skip(f"stored is what nvcc {version} took, and this build is of {resources.compiler()}")
    taken = resources.of_build(resources.logs())
    if not taken.keys() & stored.keys():
        pytest.skip(f"nothing is stored of the architectures built, {', '.join(taken)}")
    assert not list(resources.complaints(taken, stored))


def test_what_is_stored_is_read_back(resources: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = tmp_path / "_build.json"
    build.write_text(json.dumps({"cuda": "13.0.88"}), encoding="utf-8")
    monkeypatch.setattr(resources, "STORED", tmp_path / "resources.json")
    monkeypatch.setattr(resources, "BUILD", build)
    content = {"sm_80": {NAME: TAKEN}, "sm_90": {NAME: TAKEN, "other<1>": TAKEN}}
    resources.write(content)
    assert resources.stored() == ("13.0.88", content)
