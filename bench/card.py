"""A run on a card: figures of ops beside their rivals, failures, what is still to be measured; stored after each."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import store
import torch
from clock import Clock, Function

from missdiff_fast._engine.backend import resolve_backend


class CardRun:
    """Times functions on a device and stores what it finds.

    Parameters
    ----------
    device : torch.device
        A CPU serves to try the benchmarks out.
    rows : int
        Rows of table and batch.
    seconds : float
        No benchmark begins for which less is left.
    path : Path
        The file to keep, written after each benchmark.
    resume : bool
        Go on with what the file has as pending.
    """

    def __init__(self, device: torch.device, rows: int, seconds: float, path: Path | None, resume: bool) -> None:
        self.device, self.rows, self.seconds, self.path = device, rows, seconds, path
        self.trial, self.native, self._began = device.type == "cpu", {}, time.perf_counter()
        stored = store.read(path).get("full") if resume and path else None
        self.pending: list[str] | None = stored["pending"] if stored else None
        self._stored = stored
        # The thread that watches for kernels that do not end stores `found` too, so nobody may change it meanwhile.
        self._telling = threading.RLock()

    native: dict[str, Function]

    @cached_property
    def clock(self) -> Clock:
        return Clock(self.device)

    @cached_property
    def backend(self) -> Any:
        return resolve_backend("native", self.device)

    @cached_property
    def found(self) -> dict[str, Any]:
        """The figures so far."""
        known = store.facts(self.device)
        known.setdefault("card", {"name": known["machine"]["processor"], "driver": "none"})
        # "lost" are the files of benchmarks that made the card unusable: others go first when the run goes on.
        return self._stored or {**known, "rows": self.rows, "ops": {}, "failed": {}, "pending": [], "lost": []}

    def left(self) -> float:
        return self.seconds - (time.perf_counter() - self._began)

    def note(self, part: str, figures: Mapping[str, Any]) -> None:
        """Keep figures that are of no op."""
        with self._telling:
            self.found.setdefault(part, {}).update(figures)

    def save(self) -> None:
        with self._telling:
            if self.path:
                store.write(self.path, {"full": self.found})

    def time(
        self,
        op: str,
        implementation: str,
        function: Function | None = None,
        *,
        queued: bool = True,
        calls: int = 1,
        seconds: float | None = None,
        **_: Any,
    ) -> None:
        """Time an implementation of an op in turn with the native one.

        Parameters
        ----------
        op, implementation : str
        function : callable
            Without it ``seconds`` are what the native implementation takes.
        queued : bool
            As in `Clock.once`.
        calls : int
            Steps in one call; times are of one.
        """
        with self._telling:
            entry = self.found["ops"].setdefault(op, {"seconds": {}, "ratios": {}})
        known, ratios = entry["seconds"], entry["ratios"]
        if function is None:
            with self._telling:
                known[implementation] = seconds
            return
        if implementation == "native":
            self.native[op] = function
        elif "native" not in known:
            pytest.skip(f"native {op} was not timed")
        functions = {implementation: function, **({"native": self.native[op]} if op in self.native else {})}
        times = {name: taken / calls for name, taken in self.clock.take_turns(functions, queued=queued).items()}
        with self._telling:  # not while the device works: it may never end
            known[implementation] = times[implementation]
            if implementation != "native":
                ratios[implementation] = times[implementation] / times.get("native", known["native"])

    def finish(self, name: str, trace: str | None) -> None:
        """A benchmark has passed, or failed with a traceback."""
        with self._telling:
            if trace is not None:
                self.found["failed"][name] = trace[-3000:]
            if name in self.found["pending"]:
                self.found["pending"].remove(name)
            self.save()

    def lose(self, name: str, file: str, trace: str) -> None:
        """A benchmark of a file has made the device unusable for this process, or does not end."""
        with self._telling:
            self.found["lost"] = sorted({*self.found["lost"], file})
            self.finish(name, trace)

    def lost(self) -> bool:
        """Whether an error has made the device unusable for this process."""
        try:
            if not self.trial:
                torch.cuda.synchronize(self.device)  # not the clock's, which takes memory when it is made
        except RuntimeError:
            return True
        return False
