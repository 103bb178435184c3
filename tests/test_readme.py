"""The README's code runs as printed, but for the number of training steps."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pandas as pd
import pytest

import missdiff_fast
from missdiff_fast.model import MissDiff

README = Path(__file__).resolve().parents[1] / "README.md"


def test_quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) == 11
    monkeypatch.chdir(tmp_path)

    class Quick(MissDiff):
        __init__ = functools.partialmethod(MissDiff.__init__, steps=10, verbose=False)  # type: ignore[assignment]

    monkeypatch.setattr(missdiff_fast, "MissDiff", Quick, raising=False)
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    synthetic, older, filled = names["synthetic"], names["older"], names["filled"]
    assert isinstance(synthetic, pd.DataFrame)
    assert isinstance(older, pd.DataFrame)
    assert isinstance(filled, pd.DataFrame)
    assert synthetic.shape == (16_000, 15)
    assert set(older["sex"]) == {"Female"}
    assert set(older["age"]) == {70}
    assert not filled.isna().to_numpy().any()
    assert (tmp_path / "census.missdiff").is_file()


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert len(links) >= 4
    assert all((README.parent / link).exists() for link in links)
