"""The folder of finished runs: a JSON file for each, named by its settings."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdiff_fast.reproduce.runs import key
from missdiff_fast.table.io import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping


class Store:
    """Finished runs, kept from one invocation to the next.

    Parameters
    ----------
    folder : Path
        Made where it is not there.

    Raises
    ------
    OSError
        The folder cannot be made or written to.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     store.put({"seed": 0}, {"status": "done"})
    ...     store.get({"seed": 0})["status"], store.get({"seed": 1})
    ('done', None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs"
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder):
            pass

    def get(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """What came of a run with exactly these settings, or None."""
        path = self.folder / f"{key(settings)}.json"
        if not path.exists():
            return None
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(record, dict) or key(record.get("settings", {})) != key(settings):
                raise ValueError("it is of another run, or of none")
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}): delete it, and the run is done again") from error
        return record

    def put(self, settings: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
        """Write what came of a run."""
        with write_atomically(self.folder / f"{key(settings)}.json") as temporary:
            text = json.dumps({"settings": settings, **outcome}, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
