"""Rules that the user gives, which hold in all rows that are drawn or imputed.

A rule is a range or an inequality between columns, a column that is computed from others, or a set of columns that come
only in the training table's combinations. `missdiff_fast.table.relations` finds such things in a table as far as they
hold there; rules are the user's word, and hold exactly.
"""

from missdiff_fast.rules.keep import keep_drawn, keep_imputed
from missdiff_fast.rules.learning import learn_rules, load_rules, warn_of_broken
from missdiff_fast.rules.parse import parse_rules
from missdiff_fast.rules.planned import PlannedRule, as_text, as_toml, plan_rules
from missdiff_fast.rules.rules import Rules

__all__ = [
    "PlannedRule",
    "Rules",
    "as_text",
    "as_toml",
    "keep_drawn",
    "keep_imputed",
    "learn_rules",
    "load_rules",
    "parse_rules",
    "plan_rules",
    "warn_of_broken",
]
