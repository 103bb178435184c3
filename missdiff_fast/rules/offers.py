"""Rules that hold in a table, to be offered to its user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from missdiff_fast.rules.columns import RuleColumn
from missdiff_fast.rules.parse import quoted
from missdiff_fast.table.columns import Coder, Continuous
from missdiff_fast.table.dtypes import INSTANTS
from missdiff_fast.table.relations import Determined, Numeric, Relation
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.table_cells import TableCells

_MOST_COLUMNS, _ROWS = 200, 2_000  # the first ones that are compared, and the rows in which they first are
_LEAST_ROWS = 100  # in which both columns are observed
# The share of rows that would break an inequality if its columns did not depend on one another, and their number.
_LEAST_SHARE, _LEAST_BROKEN = 0.02, 20
_MOST_OFFERED = 12
_DAY = 86_400  # seconds


def found_rules(
    cells: TableCells, schema: Schema, coders: Mapping[Name, Coder], relations: Sequence[Relation]
) -> Iterator[str]:
    """Rules that a table may keep: formulas and combinations that relations tell, and inequalities.

    Parameters
    ----------
    cells : TableCells
        The table.
    schema : Schema
        Its columns.
    coders : mapping
        Name to the coder of each.
    relations : sequence of Relation
        What `missdiff_fast.table.relations.find_relations` found.
    """
    combined: dict[Name, list[Name]] = {}
    for relation in relations:
        names = (relation.column, *relation.sources)
        if isinstance(relation, Numeric) and any(schema[name].censored is not None for name in names):
            continue  # a rule does not compute with limits of measurement
        if isinstance(relation, Numeric) and relation.residual is None:
            yield _formula(relation, schema)
        elif isinstance(relation, Determined) and not relation.steps:
            combined.setdefault(relation.source, []).append(relation.column)
    for source, columns in combined.items():
        yield f"combinations({', '.join(map(quoted, (source, *columns)))})"
    same = {
        frozenset((one.column, *one.sources))
        for one in relations
        if isinstance(one, Numeric) and one.residual is None and len(one.sources) == 1
    }
    numeric = [RuleColumn(schema[name], coders[name]) for name in schema.continuous[:_MOST_COLUMNS]]
    groups: dict[tuple[str, bool], list[RuleColumn]] = {}
    for column in numeric:
        if isinstance(column.coder, Continuous) and column.exact:
            # Durations are no plain numbers, though rules count both alike.
            kind = "duration" if column.family == "timedelta" else column.kind
            groups.setdefault((kind, column.zoned), []).append(column)
    held = [pair for columns in groups.values() for pair in _inequalities(columns, cells)]
    held = [(gap, low, high) for gap, low, high in held if frozenset((low, high)) not in same]
    pairs = {(low, high) for _, low, high in held}
    between = {(low, high) for low, middle in pairs for other, high in pairs if middle == other}
    tightest = sorted((one for one in held if one[1:] not in between), key=lambda one: one[0])
    for _, low, high in tightest[:_MOST_OFFERED]:
        yield f"{quoted(low)} <= {quoted(high)}"


def _inequalities(columns: Sequence[RuleColumn], cells: TableCells) -> Iterator[tuple[float, Name, Name]]:
    """Pairs of which one column never is above the other, though it could be, with their usual distance.

    The distance is the median, in units of the middle range of the greater column.
    """
    if len(columns) < 2:
        return
    rows = np.random.default_rng(0).permutation(len(cells))[:_ROWS]
    sample = np.stack([column.read(cells.found[column.name].take(rows)) for column in columns])
    with np.errstate(invalid="ignore"):
        for i, low in enumerate(columns):
            above = (sample[i] > sample).any(1)
            above[i] = True
            for j in np.flatnonzero(~above).tolist():
                gap = _gap(low, columns[j], cells)
                if gap is not None:
                    yield gap, low.name, columns[j].name


def _gap(low: RuleColumn, high: RuleColumn, cells: TableCells) -> float | None:
    """The usual distance of two columns, one of which is never above the other; None if it is, or could not be."""
    one, other = (column.read(cells.found[column.name]) for column in (low, high))
    both = ~np.isnan(one) & ~np.isnan(other)
    number = int(np.count_nonzero(both))
    if number < _LEAST_ROWS:
        return None
    one, other = one[both], other[both]
    if (one > other).any() or not (one < other).any():
        return None
    ordered = np.sort(other)
    share = float(np.searchsorted(ordered, one, side="left").mean()) / number
    if share < _LEAST_SHARE or share * number < _LEAST_BROKEN:
        return None
    least, greatest = np.quantile(other, (0.05, 0.95))
    return float(np.median(other - one) / max(greatest - least, np.finfo(float).tiny))


def _formula(relation: Numeric, schema: Schema) -> str:
    """A relation as a rule, in which times are days."""
    target = quoted(relation.column)
    if relation.log:
        return f"{target} = {_product(relation)}"
    own = _DAY if schema[relation.column].family in INSTANTS else 1
    terms = ""
    for coefficient, name in zip(relation.coefficients, relation.sources, strict=True):
        factor = coefficient * (_DAY if schema[name].family in INSTANTS else 1) / own
        term = quoted(name) if abs(factor) == 1 else f"{abs(factor):.12g} * {quoted(name)}"
        terms += f" {'-' if factor < 0 else '+'} {term}"
    if relation.intercept:
        terms += f" {'-' if relation.intercept < 0 else '+'} {abs(relation.intercept) / own:.12g}"
    terms = terms.removeprefix(" + ")
    return f"{target} = {'-' + terms.removeprefix(' - ') if terms.startswith(' - ') else terms}"


def _product(relation: Numeric) -> str:
    over, under = list[str](), list[str]()
    factor = float(f"{np.exp(relation.intercept):.12g}")
    for power, name in zip(relation.coefficients, relation.sources, strict=True):
        size = abs(power)
        (under if power < 0 else over).append(quoted(name) if size == 1 else f"{quoted(name)}**{size:.12g}")
    over = over if factor == 1 and over else [f"{factor:.12g}", *over]
    return " / ".join([" * ".join(over), *under])
