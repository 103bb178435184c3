"""Structural holes: cells missing because of what another column says, as there is no death date of the living.

A column has them where every row with certain values of another column, its source, lacks the cell, while rows with
other values mostly have it. No row tells what such a cell would hold, so it stays a hole.
"""

from missdiff_fast.table.structural.hole import StructuralHole
from missdiff_fast.table.structural.holes import StructuralHoles, read_structural
from missdiff_fast.table.structural.search import find_structural

__all__ = ["StructuralHole", "StructuralHoles", "find_structural", "read_structural"]
