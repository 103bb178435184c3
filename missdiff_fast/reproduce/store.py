"""The folder of finished runs: a JSON file for each, named by its settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdiff_fast.reproduce.runs import key
from missdiff_fast.table.atomic import check_writable, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATUSES = ("done", "failed", "not applicable")


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
    >>> import tempfile
    >>> outcome = {"status": "failed", "message": "nothing learnt", "metrics": {}, "seconds": {}, "total_seconds": 0.1}
    >>> where = {"machine": "", "versions": "", "commit": ""}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     store.put({"seed": 0}, {**outcome, "finished": "2024-02-29T13:30:00+00:00", "environment": where})
    ...     store.get({"seed": 0})["status"], store.get({"seed": 1})
    ('failed', None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs"
        self.folder.mkdir(parents=True, exist_ok=True)
        check_writable(self.folder)

    def get(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Results of a run with exactly these settings, or None; ValueError if their file is damaged."""
        path = self.folder / f"{key(settings)}.json"
        if not path.exists():
            return None
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(record, dict) or key(record.get("settings", {})) != key(settings):
                raise ValueError("it is of another run, or of none")
            _check_outcome(record, bool(settings.get("imputation")))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}): delete it, and the run is done again") from error
        return record

    def put(self, settings: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
        """Store the results of a run."""
        with write_atomically(self.folder / f"{key(settings)}.json") as temporary:
            text = json.dumps({"settings": settings, **outcome}, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")


def _check_outcome(record: Mapping[str, Any], imputation: bool) -> None:
    """Raise ValueError for an outcome that would break the tables or make them wrong."""
    status, metrics, seconds = (record.get(name) for name in ("status", "metrics", "seconds"))
    if status not in _STATUSES:
        raise ValueError(f"its status is {_short(status)}")
    if not isinstance(metrics, dict) or not all(value is None or _is_number(value) for value in metrics.values()):
        raise ValueError(f"its metrics are {_short(metrics)}")
    if not isinstance(seconds, dict) or not all(map(_is_number, [*seconds.values(), record.get("total_seconds")])):
        raise ValueError("its seconds are no numbers")
    if status != "done" and metrics:
        raise ValueError(f"it has metrics, and its status is {status!r}")
    if status == "done":
        first, drawn = ("rmse", "fill") if imputation else ("fidelity.overall", "draw")
        if first not in metrics:
            raise ValueError(f"its metrics have no {first!r}")
        if set(seconds) != {"fit", drawn, "measure"}:
            raise ValueError(f"its seconds are of {', '.join(seconds) or 'nothing'}")
    where = record.get("environment")
    texts = {"finished": record.get("finished"), **({} if status == "done" else {"message": record.get("message")})}
    for name in ("machine", "versions", "commit"):
        texts[name] = where.get(name) if isinstance(where, dict) else None
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"its {name} is {_short(text)}")
        text.encode()  # UnicodeEncodeError, a ValueError, for a lone surrogate, which UTF-8 cannot encode


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
