"""Columns that others determine: found in a table, and kept consistent in rows that are drawn or imputed.

A column may be a difference, a linear or a log-linear formula of up to three others, to its resolution or with a
residual that is narrow beside it; or every value of another column may have one value of it (a code and its label, a
ward and its hospital, a time and its hour). A residual is one more continuous column of the model's table.
"""

from missdiff_fast.table.relations.relation import Determined, Numeric, Relation
from missdiff_fast.table.relations.relations import Relations
from missdiff_fast.table.relations.search import MOST_COLUMNS, fields_of, find_relations, searched_rows

__all__ = [
    "MOST_COLUMNS",
    "Determined",
    "Numeric",
    "Relation",
    "Relations",
    "fields_of",
    "find_relations",
    "searched_rows",
]
