"""The runs that are done, one line each of a CSV file, which is whole at any time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.table.atomic import write_atomically
from quality.measure import COLUMNS, KEY


class Runs:
    """Finished runs in a file; what is in it is not done again, but for runs that failed.

    Parameters
    ----------
    path : Path
        The file; made with the first run.
    key, columns : sequence of str
        The columns that tell runs apart, and all columns, "error" among them.
    """

    def __init__(self, path: Path, key: Sequence[str] = KEY, columns: Sequence[str] = COLUMNS) -> None:
        self._path, self._key, self._columns = path, key, list(columns)
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        if path.exists():
            table = pd.read_csv(path, keep_default_na=False, na_values=[""], float_precision="round_trip").reindex(
                columns=self._columns
            )
            for row in table.to_dict("records"):
                self._rows[self._of(row)] = row

    def done(self, key: dict[str, Any]) -> bool:
        """Whether the run is there and did not fail."""
        row = self._rows.get(self._of(key))
        return row is not None and pd.isna(row.get("error"))

    def add(self, row: dict[str, Any]) -> None:
        """Put a run into the file, in one move, in place of one that failed."""
        self._rows[self._of(row)] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(self._path) as new:
            self.table().to_csv(new, index=False)

    def table(self) -> pd.DataFrame:
        """All runs, in the order in which they came."""
        return pd.DataFrame(list(self._rows.values()), columns=self._columns)

    def _of(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(str(row[name]) for name in self._key)
