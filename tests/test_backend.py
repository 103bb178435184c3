"""Which ops a model runs on."""

from __future__ import annotations

import pytest
import torch

from missdiff_fast import _library, reference
from missdiff_fast._backend import resolve_backend, resolve_device

CPU = torch.device("cpu")


def test_auto_takes_the_compiled_ops_on_the_cpu() -> None:
    name = "missdiff_fast.ops" if _library.load() else "missdiff_fast.reference"
    assert resolve_backend("auto", CPU).__name__ == name


def test_reference_is_there_everywhere() -> None:
    assert resolve_backend("reference", CPU) is reference
    assert resolve_backend("reference", torch.device("cuda")) is reference


def test_auto_runs_in_plain_pytorch_where_the_extension_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: False)
    assert resolve_backend("auto", CPU) is reference


def test_native_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: False)
    with pytest.raises(ValueError, match=r"no compiled extension; use backend='reference'"):
        resolve_backend("native", CPU)


def test_native_on_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="on the CPU alone so far"):
        resolve_backend("native", torch.device("cuda"))


def test_a_broken_extension_is_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bool:
        raise ImportError("built for torch 2.13, found 2.9")

    monkeypatch.setattr(_library, "load", broken)
    with pytest.raises(ImportError, match="built for torch"):
        resolve_backend("auto", CPU)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="unknown backend 'gpu'; use one of 'auto', 'native', 'reference'"):
        resolve_backend("gpu", CPU)
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        resolve_device("gpu")
    with pytest.raises(ValueError, match="'meta' is not supported"):
        resolve_device("meta")
    with pytest.raises(ValueError, match="unknown device None; use 'auto', 'cpu' or 'cuda'"):
        resolve_device(None)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpu_that_is_not_there() -> None:
    assert resolve_device("auto") == CPU
    with pytest.raises(ValueError, match=r"finds no CUDA device; use device='cpu'"):
        resolve_device("cuda")
