"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Iterable

from tqdm import tqdm

from missdiff_fast._process import local_rank


def progress_bar(
    steps: Iterable[object] | None = None, *, total: int | None = None, desc: str, unit: str, verbose: bool
) -> tqdm:
    """A bar that shows where stderr is a terminal, once the work has taken two seconds; none unless ``verbose``.

    Of several processes on a machine the first alone draws bars, which would overwrite one another.

    Parameters
    ----------
    steps : iterable, optional
        The bar yields its items, and counts them; else it counts what `tqdm.update` is told.
    total : int, optional
        The number of steps, where ``steps`` does not tell it.
    desc, unit : str
        What is done, and what one step is of.
    verbose : bool
        Whether a bar is wanted.

    Examples
    --------
    >>> [step for step in progress_bar(range(3), desc="train", unit="step", verbose=False)]
    [0, 1, 2]
    """
    # None: tqdm looks whether stderr is a terminal.
    disable = None if verbose and local_rank() == 0 else True
    return tqdm(iterable=steps, total=total, desc=desc, unit=unit, delay=2, disable=disable)
