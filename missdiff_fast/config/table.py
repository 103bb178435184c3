"""Settings of what the preset "default" learns of a table's columns."""

from __future__ import annotations

from dataclasses import dataclass

from missdiff_fast._checks import (
    check_boolean,
    check_integer,
    check_share,
)


@dataclass(frozen=True)
class AtomsConfig:
    """Frequent values of continuous columns that are categories of their own.

    An atom is a value of at least a share ``share`` of the column's observed cells, and of at least ``count`` cells; of
    a column, at most the 256 most frequent ones. Of more than ``budget`` atoms of all columns, those of the greatest
    shares are kept, because each widens the encoded row and costs time; atoms of a share of 5 % are always kept. A
    column whose most frequent value has a share below ``spike`` has no atoms: its scores alone give the even shares of
    its values. A share of 1 is no atoms. See `missdiff_fast.table.atoms`.

    Examples
    --------
    >>> AtomsConfig(share=0.001)
    AtomsConfig(share=0.001, count=10, budget=600, spike=0.05)
    """

    share: float = 0.0003
    count: int = 10
    budget: int = 600
    spike: float = 0.05

    def __post_init__(self) -> None:
        check_share("atoms.share", self.share)
        check_integer("atoms.count", self.count, 1)
        check_integer("atoms.budget", self.budget, 1)
        check_share("atoms.spike", self.spike)


@dataclass(frozen=True)
class CategoriesConfig:
    """Categorical columns of many categories.

    A column of more than ``one_hot`` categories is two columns to the network, of about the square root of their number
    each. See `missdiff_fast.table.wide`.

    Examples
    --------
    >>> CategoriesConfig().one_hot
    100
    """

    one_hot: int = 100

    def __post_init__(self) -> None:
        check_integer("categories.one_hot", self.one_hot, 2)


@dataclass(frozen=True)
class RelationsConfig:
    """Whether columns that others determine are found, and kept consistent; see `missdiff_fast.table.relations`.

    Examples
    --------
    >>> RelationsConfig()
    RelationsConfig(enabled=True)
    """

    enabled: bool = True

    def __post_init__(self) -> None:
        check_boolean("relations.enabled", self.enabled)
