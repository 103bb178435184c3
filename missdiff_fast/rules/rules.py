"""The rules of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from missdiff_fast.rules.columns import RuleColumn
from missdiff_fast.rules.rows import Network
from missdiff_fast.rules.rule import Combinations, Derived, Rule
from missdiff_fast.table.schema import Name


@dataclass(frozen=True)
class Rules:
    """Rules that drawn and imputed rows keep; made by `missdiff_fast.rules.learn_rules`.

    Parameters
    ----------
    network : Network
        The rules, and which columns they depend on.
    columns : mapping
        Name to each column that a rule names.
    applied : tuple of int
        In how many rows of the training table all cells of each rule are observed.
    broken : tuple of int
        How many of these break it.
    """

    network: Network
    columns: Mapping[Name, RuleColumn]
    applied: tuple[int, ...]
    broken: tuple[int, ...]

    @property
    def all(self) -> tuple[Rule, ...]:
        """The rules, in their user's order."""
        return self.network.rules

    def frame(self) -> pd.DataFrame:
        """A row for each rule: ``rule``, ``kind``, ``columns`` (a list of names), ``rows`` and ``broken``."""
        counts = zip(self.all, self.applied, self.broken, strict=True)
        rows = [(rule.text, rule.kind, list(rule.columns), applied, broken) for rule, applied, broken in counts]
        return pd.DataFrame(rows, columns=["rule", "kind", "columns", "rows", "broken"])

    def state(self) -> list[dict[str, Any]]:
        """The learnt properties of each rule, as JSON; the texts are a parameter of the model."""
        learnt: list[dict[str, Any]] = []
        for rule, rows, broken in zip(self.all, self.applied, self.broken, strict=True):
            learnt.append({"rows": rows, "broken": broken})
            if isinstance(rule, Derived):
                learnt[-1]["rounded"] = rule.rounded
        return learnt

    def tensors(self) -> dict[str, Tensor]:
        """The combinations of the training table, and their counts, by name."""
        found = {}
        for k, rule in enumerate(self.all):
            if isinstance(rule, Combinations):
                found[f"{k}.places"] = torch.from_numpy(rule.places.astype(np.int32))
                found[f"{k}.counts"] = torch.from_numpy(rule.counts)
        return found

    @classmethod
    def of(
        cls,
        bound: Sequence[Rule],
        columns: Mapping[Name, RuleColumn],
        state: Sequence[Mapping[str, Any]],
        tensors: Mapping[str, Tensor],
    ) -> Rules:
        """From what `state` and `tensors` gave; KeyError or ValueError where they do not fit."""
        if len(state) != len(bound):
            raise ValueError("the rules of a model file do not hold together")
        rules: list[Rule] = []
        for k, (rule, learnt) in enumerate(zip(bound, state, strict=True)):
            if isinstance(rule, Derived):
                rule = replace(rule, rounded=bool(learnt["rounded"]))
            elif isinstance(rule, Combinations):
                places, counts = (tensors[f"{k}.{name}"].cpu().numpy() for name in ("places", "counts"))
                widths = np.array([len(columns[name].values) for name in rule.columns])
                if places.shape != (len(counts), len(widths)) or (places < 0).any() or (places >= widths).any():
                    raise ValueError("the combinations of a model file do not hold together")
                rule = replace(rule, places=places.astype(np.int64), counts=counts)
            rules.append(rule)
        applied, broken = (tuple(int(learnt[name]) for learnt in state) for name in ("rows", "broken"))
        return cls(network_of(rules), columns, applied, broken)


def network_of(rules: Sequence[Rule]) -> Network:
    """The rules with the derived ones in an order in which each comes after those of its sources.

    Raises
    ------
    ValueError
        Derived columns go in a circle; the message names them.
    """
    left = {rule.column: rule for rule in rules if isinstance(rule, Derived)}
    ordered: dict[Name, Derived] = {}
    while left:
        ready = [name for name, rule in left.items() if left.keys().isdisjoint(rule.sources)]
        if not ready:
            raise ValueError(f"the columns {list(left)} are computed from one another")
        ordered |= {name: left.pop(name) for name in ready}
    return Network(tuple(rules), ordered)
