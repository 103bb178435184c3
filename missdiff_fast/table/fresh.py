"""Fresh identifiers: in the format of a column's, and never one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass
from math import prod
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

# A position of an identifier may have all characters of the first of these that holds those observed there.
_ALPHABETS = (
    digits,
    ascii_lowercase,
    ascii_uppercase,
    digits + "abcdef",
    digits + "ABCDEF",
    digits + ascii_lowercase,
    digits + ascii_uppercase,
    ascii_uppercase + ascii_lowercase,
    digits + ascii_uppercase + ascii_lowercase,
)
_MANY = 10  # identifiers of which a shared character tells nothing


@dataclass(frozen=True)
class Fresh:
    """Identifiers that no row of a table has, numbered from 0.

    Identifiers of one length are numbers whose digits are the characters of each position. Fresh ones are successive
    numbers in the largest gap between those observed of the most frequent length, and beyond the gap longer than any
    observed one. So the observed ones need not be stored. The gap is entered at a round number, not at its end, which
    would tell an observed one.

    Parameters
    ----------
    alphabets : tuple of str
        The characters of each position.
    first : int
        The number of the first fresh identifier.
    count : int
        How many of the gap there are from it on.
    longest : int
        The greatest length of an observed identifier.
    whole : bool
        Whether the identifiers are numbers, which have no leading zeros.

    Examples
    --------
    >>> fresh = Fresh.of([f"P-{number:04}" for number in range(1, 300)])
    >>> fresh.text(0), fresh.text(1), fresh.text(699), fresh.text(700)
    ('P-0300', 'P-0301', 'P-0999', 'P-00000')
    """

    alphabets: tuple[str, ...]
    first: int
    count: int
    longest: int
    whole: bool = False

    @classmethod
    def of(cls, texts: Collection[str], *, whole: bool = False, avoid: Collection[str] = ()) -> Fresh:
        """Learn the format of a column's distinct identifiers.

        Parameters
        ----------
        texts : collection of str
            The identifiers, one that is not empty at least.
        whole : bool
            Whether they are numbers.
        avoid : collection of str
            Further texts that no fresh identifier may be, such as marks of missing cells.
        """
        lengths = Counter(len(text) for text in texts if text)
        length = lengths.most_common(1)[0][0]
        usual = [text for text in texts if len(text) == length]
        alphabets = _alphabets(usual)
        others = [text for text in avoid if len(text) == length and all(map(str.__contains__, alphabets, text))]
        first, count = _gap(sorted({_number(text, alphabets) for text in (*usual, *others)}), alphabets)
        return cls(alphabets, first, count, max(*lengths, *map(len, avoid), 0), whole)

    def text(self, number: int) -> str:
        """The fresh identifier of a number from 0."""
        if number < self.count:
            return _write(self.first + number, self.alphabets)
        rest, varies = number - self.count, max(i for i, one in enumerate(self.alphabets) if len(one) > 1)
        added = self.longest + 1 - len(self.alphabets)
        while True:
            more = (self.alphabets[varies],) * added
            alphabets = (*self.alphabets[: varies + 1], *more, *self.alphabets[varies + 1 :])
            if self.whole:
                alphabets = (alphabets[0].replace("0", "") or digits[1:], *alphabets[1:])
            if rest < (size := prod(map(len, alphabets))):
                return _write(rest, alphabets)
            rest, added = rest - size, added + 1

    def state(self) -> dict[str, Any]:
        """The format as JSON, which `from_state` reads."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Fresh:
        """From what `state` gave; ValueError, TypeError or KeyError if it does not hold together."""
        first, count, longest = (int(state[name]) for name in ("first", "count", "longest"))
        fresh = cls(tuple(map(str, state["alphabets"])), first, count, longest, bool(state["whole"]))
        size = prod(map(len, fresh.alphabets))
        fits = size > 1 and min(fresh.first, fresh.count) >= 0 and fresh.first + fresh.count <= size
        if not fits or fresh.longest < len(fresh.alphabets):
            raise ValueError("the format of an identifier does not hold together")
        return fresh


def _alphabets(texts: list[str]) -> tuple[str, ...]:
    """The characters that each position of identifiers of one length may have."""
    seen = [set(characters) for characters in zip(*texts, strict=True)]
    alphabets = [_alphabet(characters, many=len(texts) >= _MANY) for characters in seen]
    if all(len(one) == 1 for one in alphabets):  # of marks alone
        alphabets[-1] += digits
    varies = next(i for i, one in enumerate(alphabets) if len(one) > 1)
    if alphabets[varies].startswith("0") and "0" not in seen[varies]:  # numbers without leading zeros
        alphabets[varies] = alphabets[varies][1:]
    return tuple(alphabets)


def _alphabet(seen: set[str], *, many: bool) -> str:
    """The characters of a position at which these were seen; of a few identifiers a shared one is not kept."""
    if len(seen) == 1 and (many or not seen.issubset(_ALPHABETS[-1])):
        return next(iter(seen))
    return next((one for one in _ALPHABETS if seen.issubset(one)), "".join(sorted(seen)))


def _gap(used: list[int], alphabets: tuple[str, ...]) -> tuple[int, int]:
    """Where fresh numbers begin in the largest gap between ascending ones, and how many there are."""
    ends = [-1, *used, prod(map(len, alphabets))]
    place = max(range(len(ends) - 1), key=lambda i: (ends[i + 1] - ends[i], i))
    low, high = ends[place] + 1, ends[place + 1]
    first, unit = low, 1
    for alphabet in reversed(alphabets):
        unit *= len(alphabet)
        round_up = -(-low // unit) * unit
        if round_up > (low + high) // 2:
            break
        first = round_up
    return first, max(0, high - first)


def _number(text: str, alphabets: tuple[str, ...]) -> int:
    number = 0
    for character, alphabet in zip(text, alphabets, strict=True):
        number = number * len(alphabet) + alphabet.index(character)
    return number


def _write(number: int, alphabets: tuple[str, ...]) -> str:
    characters = []
    for alphabet in reversed(alphabets):
        number, place = divmod(number, len(alphabet))
        characters.append(alphabet[place])
    return "".join(reversed(characters))
