"""Progress over the columns of a table."""

from __future__ import annotations

from tqdm import tqdm


def column_bar(total: int, text: str, verbose: bool) -> tqdm:
    """A bar that shows on stderr where that is a terminal, once the work has taken two seconds; none unless verbose."""
    return tqdm(total=total, desc=text, unit="column", delay=2, disable=None if verbose else True)
