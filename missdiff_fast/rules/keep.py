"""Drawn and imputed rows in which the codec's relations and the user's rules hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from missdiff_fast._engine.random import derive, row_uniform
from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do
from missdiff_fast.rules.columns import put
from missdiff_fast.rules.combining import combine
from missdiff_fast.rules.deriving import with_derived
from missdiff_fast.rules.moving import move
from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rules import Rules
from missdiff_fast.rules.staying import staying, with_relations
from missdiff_fast.table import Codec, TableCells
from missdiff_fast.table.schema import Name

_ATTEMPTS = 4  # draws of a row beside the first
_TURNS = 4  # in which cells are moved and others follow
# Parts of a table that are drawn again, and the rows between two that are worth leaving out.
_MOST_SPANS, _LEAST_GAP = 16, 1_000

Draw = Callable[[int, slice], pd.DataFrame]


def keep_drawn(
    rules: Rules,
    codec: Codec,
    draw: Draw,
    known: TableCells,
    seed: int,
    *,
    first_row: int = 0,
    holes: pd.DataFrame | None = None,
    recorded: bool = False,
    structural: bool = False,
    quiet: bool = False,
) -> pd.DataFrame:
    """Drawn rows in which relations and rules hold, as far as known cells let them.

    A row that breaks a rule is drawn again, with a seed of its own for each attempt. What is left is moved: impossible
    combinations to the most similar possible ones, other cells to the nearest value at which the rules hold.

    Parameters
    ----------
    rules : Rules
        The rules.
    codec : Codec
        The table's.
    draw : callable
        Takes a seed and a slice of the rows, and gives these as `missdiff_fast.table.Codec.decode` does. Row i must
        depend on (seed, i) alone.
    known : TableCells
        The known cells of the rows, N of them, which are never moved.
    seed : int
        Of the first draw; row i depends on (seed, i) alone.
    first_row : int
        The number i of the first row.
    holes : DataFrame, optional
        The cells that are to be missing, bool ``[N, columns]``, in rows without known cells. A rule holds in rows in
        which all of its cells are there.
    recorded : bool
        As of `missdiff_fast.table.Codec.settle`.
    structural : bool
        Whether structural holes stay holes in the rows, which are then no part of a rule.
    quiet : bool
        Whether no warning tells of rules that do not hold.
    """
    part = _Part(codec, known, seed, first_row, holes, recorded, structural)
    drawn = draw(seed, slice(0, len(known)))
    frame = part.settled(drawn)
    if not rules.all:
        return frame
    rows = with_derived(part.rows(rules, frame), rules.network)
    for attempt in range(_ATTEMPTS):
        unkept = rules.network.unkept(rows)
        if not unkept.any():
            break
        again = derive(seed, "redraw", attempt)
        for span in spans(unkept):
            few = part.cut(span, again)
            other = draw(again, span)
            settled = few.settled(other)
            new = with_derived(few.rows(rules, settled), rules.network)
            good = unkept[span] & ~rules.network.unkept(new)
            places = span.start + np.flatnonzero(good)
            if len(places):
                rows = rows.with_rows(places, new.take(good))
                drawn, frame = _put_rows(drawn, places, other[good]), _put_rows(frame, places, settled[good])
    uniform = row_uniform(derive(seed, "redraw", _ATTEMPTS), first_row, len(known))
    return _kept(rules, part, rows, drawn, frame, uniform, quiet=quiet)


def keep_imputed(
    rules: Rules,
    codec: Codec,
    filled: pd.DataFrame,
    known: TableCells,
    *,
    recorded: bool = False,
    structural: bool = False,
) -> pd.DataFrame:
    """Rows with one best guess for each missing cell, in which relations and rules hold, as in `keep_drawn`.

    Parameters
    ----------
    rules, codec, known
        As of `keep_drawn`.
    filled : DataFrame
        What `missdiff_fast.table.Codec.decode_means` gave.
    recorded : bool
        As of `missdiff_fast.table.Codec.settle`.
    structural : bool
        As of `keep_drawn`.
    """
    part = _Part(codec, known, recorded=recorded, structural=structural)
    frame = part.settled(filled)
    if not rules.all:
        return frame
    rows = with_derived(part.rows(rules, frame), rules.network)
    return _kept(rules, part, rows, filled, frame, None)


@dataclass(frozen=True)
class _Part:
    """Known cells of rows, and what the codec needs to settle these; without a seed nothing is chosen at random."""

    codec: Codec
    known: TableCells
    seed: int | None = None
    first_row: int = 0
    holes: pd.DataFrame | None = None
    recorded: bool = False
    structural: bool = False

    def rows(self, rules: Rules, frame: pd.DataFrame) -> Rows:
        """The cells of settled rows as the rules see them."""
        holes: Mapping[Name, np.ndarray] = {}
        if self.holes is not None:
            holes = {name: self.holes[name].to_numpy(dtype=bool) for name in rules.columns}
        elif self.structural:
            holes = self.codec.structural.missing(frame, self.known)
        return Rows.drawn(rules.columns, frame, self.known, holes)

    def sources(self, rules: Rules) -> list[Name]:
        """The columns of rules that tell which cells are structural holes, which moved cells would make wrong."""
        keeps = self.structural or self.holes is not None
        sources = {one.source for one in self.codec.structural.found} if keeps else set()
        return [name for name in rules.columns if name in sources]

    def settled(self, drawn: pd.DataFrame) -> pd.DataFrame:
        """Drawn rows in which the relations hold."""
        uniform = None
        if self.seed is not None and self.codec.relations.found:
            uniform = row_uniform(derive(self.seed, "settle"), self.first_row, len(drawn))
        return self.codec.settle(drawn, self.known, uniform, self.holes, recorded=self.recorded)

    def cut(self, span: slice, seed: int) -> _Part:
        """Some of the rows, with another seed."""
        holes = None if self.holes is None else self.holes[span]
        known = self.known.take(np.arange(span.start, span.stop))
        return replace(self, known=known, seed=seed, first_row=self.first_row + span.start, holes=holes)


def spans(wanted: np.ndarray, most: int = _MOST_SPANS, gap: int = _LEAST_GAP) -> list[slice]:
    """Slices that together hold all wanted rows, at most so many; the widest gaps between these are left out.

    Examples
    --------
    >>> spans(np.array([0, 1, 0, 1, 0, 0, 0, 1, 1], dtype=bool), most=2, gap=1)
    [slice(1, 4, None), slice(7, 9, None)]
    """
    places = np.flatnonzero(wanted)
    gaps = np.diff(places)
    order = np.argsort(-gaps, kind="stable")[: most - 1]
    ends = np.sort(order[gaps[order] > gap])
    starts, stops = np.append(places[0], places[ends + 1]), np.append(places[ends], places[-1]) + 1
    return [slice(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]


def _kept(
    rules: Rules,
    part: _Part,
    rows: Rows,
    drawn: pd.DataFrame,
    frame: pd.DataFrame,
    uniform: np.ndarray | None,
    *,
    quiet: bool = False,
) -> pd.DataFrame:
    """The frame with cells moved so that the rules hold; the relations are settled again in the rows that changed."""
    sources, network = part.sources(rules), with_relations(rules, part.codec.relations)
    alone = not part.codec.relations.found and not sources  # nothing follows from what is moved
    turn, last = 0, 0 if alone else _TURNS - 1
    while turn <= last:
        original = part.rows(rules, frame)
        rows = with_derived(original, rules.network) if turn else rows
        # Where turns lead to no end, rules come before relations.
        rows = _moved(rows, rules.network.unkept, network if turn < last else rules.network, sources, uniform)
        moved = {name: original.free[name] & (rows.numbers[name] != original.numbers[name]) for name in rules.columns}
        changed = np.logical_or.reduce(list(moved.values()))
        if not changed.any():
            if turn == last or not rules.network.unkept(rows).any():
                break
            turn = last
            continue
        frame = frame.copy(deep=False)
        for name, column in rules.columns.items():
            if moved[name].any():
                frame[name] = put(frame[name], moved[name], column.array(rows.numbers[name][moved[name]]))
        places = np.flatnonzero(changed)
        if part.codec.relations.found:
            few, there = rows.take(places), {name: one[places] for name, one in moved.items()}
            stay = staying(few, there, rules, part.codec.relations.found) if turn < last else few.there
            frame = _settled_again(part, drawn, frame, places, uniform, stay)
        turn += 1
    if not quiet:
        _warn(rules, part.rows(rules, frame))
    return frame


def _moved(
    rows: Rows,
    unkept: Callable[[Rows], np.ndarray],
    network: Network,
    sources: Sequence[Name],
    uniform: np.ndarray | None,
) -> Rows:
    """The rows with cells moved so that the rules hold: the sources of structural holes only where no others do it."""
    for locked in (sources, ()) if sources else ((),):
        places = np.flatnonzero(unkept(rows))
        if not len(places):
            break
        few = rows.take(places)
        free = few.free
        for name in locked:
            few = few.settled(name, np.ones(len(places), dtype=bool))
        few = combine(few, network, None if uniform is None else uniform[places])
        rows = rows.with_rows(places, replace(move(with_derived(few, network), network), free=free))
    return rows


def _settled_again(
    part: _Part,
    drawn: pd.DataFrame,
    frame: pd.DataFrame,
    places: np.ndarray,
    uniform: np.ndarray | None,
    stay: Mapping[Name, np.ndarray],
) -> pd.DataFrame:
    """The frame with the relations settled in some rows, in which some cells stay, bool ``[n]`` of some columns.

    Cells that are known tell of structural holes, not these: what follows from that stays too.
    """
    holes = None if part.holes is None else part.holes.iloc[places]
    known, rows = part.known.take(places), drawn.iloc[places].copy(deep=False)  # with the residuals
    for name in frame.columns:
        rows[name] = frame[name].iloc[places].array
    chosen = None if uniform is None else uniform[places]
    _, told = part.codec.structural.agree(rows, known, holes, recorded=part.recorded)
    none = np.zeros(len(places), dtype=bool)
    kept = {name: stay.get(name, none) | told.get(name, none) for name in {**stay, **told}}
    return _put_rows(frame, places, part.codec.relations.settle(rows, known, chosen, holes, kept))


def _put_rows(frame: pd.DataFrame, places: np.ndarray, rows: pd.DataFrame) -> pd.DataFrame:
    """The frame with the cells of other rows in some places."""
    result = frame.copy(deep=False)
    for name in rows.columns:
        result[name] = put(result[name], places, rows[name].array)
    return result


def _warn(rules: Rules, rows: Rows) -> None:
    """Warn of rules that do not hold, at the line outside of this package that called."""
    told, names = list[str](), dict[object, None]()
    for rule in rules.all:
        broken = rows.broken(rule)
        if not broken.any():
            continue
        drawn = np.logical_or.reduce([rows.free[name] for name in rule.columns])
        for count, why in (
            (int((broken & ~drawn).sum()), "by known cells alone"),
            (int((broken & drawn).sum()), "where no value that could be found keeps it beside the known cells"),
        ):
            if count:
                told.append(f"{rule.text!r} in {count:,} row{'s' * (count > 1)}, {why}")
                names |= dict.fromkeys(rule.columns)
    if told:
        problem = f"rows that break a rule are left so: {'; '.join(told)}"
        remedy = Do("look at the known cells of these rows")
        columns = [name for name in names if isinstance(name, (str, int))]
        warn(DataWarning("rules", problem, columns=columns, remedy=remedy, joint=": "))
