"""Fresh identifiers: in the format of the observed ones, and none of them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest

from missdiff_fast.table.fresh import Fresh


def _shuffled(texts: list[str]) -> list[str]:
    return random.Random(0).sample(texts, len(texts))


FORMATS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "a prefix": (
        [f"P-{number:05}" for number in range(500)],
        lambda text: text.startswith("P-") and text[2:].isdigit(),
    ),
    "from 1 on": ([str(number) for number in range(1, 1001)], lambda text: text.isdigit() and text[0] != "0"),
    "none left": ([f"{number:03}" for number in range(1000)], str.isdigit),
    "every second": ([f"{number:03}" for number in range(0, 1000, 2)], str.isdigit),
    "sparse": ([str(random.Random(i).randrange(10**7, 10**8)) for i in range(900)], lambda text: len(text) == 8),
    "uuid": ([str(uuid.UUID(int=random.Random(i).getrandbits(128))) for i in range(300)], uuid.UUID),
    "letters": ([a + b + c for a in "abcx" for b in "ghkz" for c in "abcdefghij"], str.islower),
    "a suffix": ([f"{number:04}/24" for number in range(300)], lambda text: text.endswith("/24")),
    "lengths": (["a" * n + str(n) for n in range(1, 40)], str.isalnum),
    "two": (["a", "b"], str.isalnum),
    "one": (["x-1"], lambda text: text[1] == "-"),
    "no letter of an alphabet": (["ä", "ö", "-"], lambda text: not set(text) - set("äö-")),
    "hexadecimal letters": ([f"{a}{number:03}" for a in "ABC" for number in range(300)], lambda text: text[0] in "DEF"),
    "an empty one": (["", "a1", "b2", "c3"], str.isalnum),
}


@pytest.mark.parametrize("name", FORMATS)
def test_fresh_identifiers_are_distinct_and_never_observed(name: str) -> None:
    texts, fits = FORMATS[name]
    fresh = Fresh.of(_shuffled(texts))
    drawn = [fresh.text(number) for number in range(2500)]
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & set(texts)
    assert all(fits(text) for text in drawn)
    assert Fresh.from_state(fresh.state()) == fresh


@pytest.mark.parametrize("texts", [list("0123456789"), [str(number) for number in range(120)], ["7"], ["10", "11"]])
def test_numbers_have_no_leading_zeros(texts: list[str]) -> None:
    fresh = Fresh.of(texts, whole=True)
    drawn = [fresh.text(number) for number in range(2000)]
    assert all(text == str(int(text)) for text in drawn)
    assert Fresh.from_state(fresh.state()) == fresh
    assert len(set(drawn)) == 2000
    assert not set(drawn) & set(texts)


def test_marks_of_missing_cells_are_avoided() -> None:
    texts = [f"{number:03}" for number in range(500)]
    avoided = ["600", "999", "?", "99999", "xyz"]
    fresh = Fresh.of(texts, avoid=avoided)
    drawn = {fresh.text(number) for number in range(20_000)}
    assert not drawn & set(avoided)


def test_few_identifiers_are_not_told_by_their_format() -> None:
    assert "john" not in "".join(Fresh.of(["john1", "john2", "annamaria"]).alphabets)


def test_the_gap_is_entered_at_a_round_number() -> None:
    assert Fresh.of([f"P{number:05}" for number in range(1, 1235)]).text(0) == "P02000"
    assert Fresh.of([str(number) for number in range(1_000_017, 9_000_000, 7_777)]).text(0) == "9000000"


@pytest.mark.parametrize(
    "change", [{"first": -1}, {"count": 10**9}, {"alphabets": ["a"]}, {"alphabets": ["ab", ""]}, {"longest": 0}]
)
def test_a_damaged_format_is_refused(change: dict[str, object]) -> None:
    state = Fresh.of(["P01", "P07"]).state()
    with pytest.raises(ValueError, match="does not hold together"):
        Fresh.from_state({**state, **change})
