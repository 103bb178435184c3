"""A small table, and helpers for tests of the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.cli import main

ROWS = 120


def make_table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(ROWS)],
            "age": pd.array(random.integers(20, 90, ROWS), dtype="Int64"),
            "dose=mg": np.round(random.normal(5, 1, ROWS), 2),
            "sex": random.choice(["female", "male"], ROWS),
            "ward": random.choice([10, 20, 30], ROWS),
        }
    )
    holes = random.random(table.shape) < 0.2
    holes[:, [0, 4]] = False
    return table.mask(holes)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run the command, which must end with code 2, nothing on stdout and one line on stderr; the line."""
    try:
        code: object = main([str(arg) for arg in args])
    except SystemExit as stop:
        code = stop.code
    output = capsys.readouterr()
    assert code == 2, output.err
    assert output.out == ""
    assert output.err.startswith("missdiff: error: ")
    assert output.err.count("\n") == 1
    return output.err.removeprefix("missdiff: error: ").rstrip("\n")


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run the command, which must leave by SystemExit with code 0; what it printed."""
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 0
    return capsys.readouterr().out


def raises(error: BaseException) -> Callable[..., None]:
    """A stand-in for any function, that raises this."""

    def raising(*_: object, **__: object) -> None:
        raise error

    return raising
