"""Dates of a second file, in columns whose form the model knows, where no cell tells whether the day stands first."""

from __future__ import annotations

import warnings

import pytest

from missdiff_fast.table.date_reading import Texts, read_local_dates


def _read(text: str, form: str, order: str | None) -> tuple[str | None, list[str]]:
    """The date that a column's only text is read as, and what is told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values, _ = read_local_dates({"seen": Texts({text: 3}, form)}, "t.csv", order)
    date = f"{values['seen'].iloc[0]:%Y-%m-%d}" if "seen" in values else None
    return date, [str(one.message) for one in caught]


@pytest.mark.parametrize(("text", "form"), [("01/02/2020", "YYYY/MM/DD"), ("01-02-2020", "DD-Mon-YYYY")])
def test_a_form_that_is_written_otherwise_tells_no_order(text: str, form: str) -> None:
    date, (told,) = _read(text, form, None)
    assert date is None
    assert "dates whose order no cell tells" in told
    assert _read(text, form, "month") == ("2020-01-02", [])
    assert _read(text, form, "day") == ("2020-02-01", [])


def test_the_order_of_the_known_form_counts_and_another_that_is_given_does_not_which_is_told() -> None:
    assert _read("01/02/2020", "MM/DD/YYYY", None) == ("2020-01-02", [])
    assert _read("01/02/2020", "M/D/YYYY hh:mm", "month") == ("2020-01-02", [])
    date, (told,) = _read("01/02/2020", "MM/DD/YYYY", "day")
    assert date == "2020-01-02"
    assert told == (
        "t.csv: column 'seen' holds dates whose order none of their cells tells, such as '01/02/2020', and was read "
        "with the month first, as in fit, not in the order given; if that is wrong, write them as 2024-02-29"
    )
