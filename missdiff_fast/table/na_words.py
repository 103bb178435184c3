"""Words such as ``NA`` in columns of text: they mean "missing", unless the file or the user tells otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Pass, Remedy
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.fields import MISSING_TEXTS, WrittenTable, content, is_quoted
from missdiff_fast.table.schema import Name
from missdiff_fast.table.text_parsing import TextParser

_SHOWN = 3
_WORDS = MISSING_TEXTS[1:]
_ANY = "|".join(map(re.escape, _WORDS))
_QUOTED = re.compile(rf'"\s*(?:{_ANY})\s*"')


@dataclass
class _Found:
    """The words of one column: how often each is bare, and the rows in which it is in quotes."""

    bare: dict[str, int]
    quoted: dict[str, list[int]] = field(default_factory=dict)


def keep_na_words(
    frame: pd.DataFrame,
    parser: TextParser,
    source: str,
    *,
    kept: Collection[Name],
    markers: Collection[str],
    write: Callable[[], WrittenTable],
) -> pd.DataFrame:
    """Give columns of text the words that the file has in quotes on purpose, and warn of words that may be codes.

    A word in quotes is a text where the file has quotes only as needed, because then they tell it from a missing cell.
    Where the column has all its cells in quotes, its name too, they tell nothing, and the word means "missing".

    Parameters
    ----------
    frame : DataFrame
        The table as read, with the words as missing cells.
    parser : TextParser
        What parsed it.
    source : str
        The file's name, for warnings.
    kept : collection of str or int
        Columns in which the words are texts anyway.
    markers : collection of str
        Words that the user named as missing.
    write : callable
        The fields of the frame's rows, as the file has them.
    """
    if not any(_has_word(piece) for piece in parser.pieces()):
        return frame
    may_be = [name for name in frame.columns if name not in kept and _may_hold_words(frame[name])]
    in_quotes = any('"' in piece and _QUOTED.search(piece) is not None for piece in parser.pieces())
    may_be = [name for name in may_be if in_quotes or frame[name].notna().any()]
    if not may_be:
        return frame
    texts = parser.texts(may_be, missing=("",))
    counts = {name: _count_words(texts[name], markers) for name in may_be}
    found: dict[Name, _Found] = {name: _Found(words) for name, words in counts.items() if words}
    if not found:
        return frame
    written = write() if in_quotes else None
    bare = dict.fromkeys(found, True) if written is None else _find_quoted(frame, found, written)
    names = _header(frame, written)
    codes: dict[Name, str] = {}
    texts_in_quotes: dict[Name, str] = {}
    for name, words in found.items():
        deliberate = bare[name] or not names[name]
        if words.quoted and deliberate:
            frame[name] = _with_words(frame[name], words.quoted)
            if not bare[name]:
                word = max(words.quoted, key=lambda word: len(words.quoted[word]))
                texts_in_quotes[name] = f"{word!r} {_times(len(words.quoted[word]))} in column {name!r}"
        elif words.quoted:
            words.bare |= {word: words.bare.get(word, 0) + len(rows) for word, rows in words.quoted.items()}
            word = max(words.quoted, key=lambda word: len(words.quoted[word]))
            codes[name] = f"{word!r} {_times(words.bare[word])} in column {name!r}, in quotes"
        if name not in codes and (told := _looks_like_code(frame[name], words, texts[name])):
            codes[name] = told
    _warn(codes, source, "were read as missing", ("keep_na_columns", list(map(str, codes))), "if they are values")
    marks = sorted({word for name in texts_in_quotes for word in found[name].quoted})
    _warn(
        texts_in_quotes, source, "were read as texts, being in quotes", ("missing_values", marks), "if they are missing"
    )
    return frame


def _has_word(text: str) -> bool:
    # Each word has one of these letters, for which one search is enough in a text of numbers.
    return ("N" in text or "n" in text) and any(word in text for word in _WORDS)


def _may_hold_words(column: pd.Series) -> bool:
    """Whether a column is text with missing cells, or has no cells at all."""
    if not column.isna().any():
        return False
    seen = column.dropna()
    return seen.empty or (holds_text(column.dtype) and isinstance(seen.iloc[0], str))


def _count_words(texts: pd.Series, markers: Collection[str]) -> dict[str, int]:
    counts = texts.value_counts()
    found: dict[str, int] = {}
    for text, count in counts.items():
        word = str(text).strip()
        if word in _WORDS and word not in markers:
            found[word] = found.get(word, 0) + int(count)
    return found


def _find_quoted(frame: pd.DataFrame, found: Mapping[Name, _Found], written: WrittenTable) -> dict[Name, bool]:
    """Move words in quotes to ``quoted``; whether each column also has other cells that are not in quotes."""
    places = {place: name for place, name in enumerate(frame.columns) if name in found}
    bare = dict.fromkeys(found, False)
    open_ = dict(places)
    for row, fields in enumerate(written.rows()):
        for place, name in places.items():
            cell = fields[place]
            if is_quoted(cell):
                word = content(cell).strip()
                if word in found[name].bare:
                    found[name].quoted.setdefault(word, []).append(row)
                    found[name].bare[word] -= 1
            elif place in open_ and (text := cell.strip()) and text not in _WORDS:
                bare[name] = True
                del open_[place]
    return bare


def _header(frame: pd.DataFrame, written: WrittenTable | None) -> dict[Name, bool]:
    """Whether each column's name is in quotes; as if it were where there is no header."""
    fields = written.names() if written is not None else None
    if fields is None:
        return dict.fromkeys(frame.columns, True)
    return {name: is_quoted(cell) for name, cell in zip(frame.columns, fields, strict=True)}


def _with_words(column: pd.Series, words: Mapping[str, list[int]]) -> pd.Series:
    cells = column.astype(object).to_numpy(copy=True)
    for word, rows in words.items():
        cells[rows] = word
    return pd.Series(cells, index=column.index)


def _looks_like_code(column: pd.Series, words: _Found, texts: pd.Series) -> str:
    """What to say of a word among texts of its form, as NA among codes of countries, or beside empty cells."""
    left = {word: count for word, count in words.bare.items() if count}
    others = [text for text in column.dropna().unique().tolist() if text not in _WORDS]
    if not left or not others:
        return ""
    word = max(left, key=lambda word: left[word])
    told = f"{word!r} {_times(left[word])} in column {column.name!r}"
    alike = [code for code in left if all(_form(text) == _form(code) for text in others)]
    if alike:
        count = _times(left[alike[0]])
        return f"{alike[0]!r} {count} in column {column.name!r}, whose other texts are alike, such as {others[0]!r}"
    # Among codes with digits, such as 02139, the word is none of them.
    words_alone = not any(re.search(r"\d", text) for text in others)
    return f"{told}, beside empty cells" if words_alone and texts.isna().any() else ""


def _form(text: str) -> str:
    """A text with A for each capital letter, a for each other one and 0 for each digit."""
    return re.sub(r"[^\W\d_]", lambda found: "A" if found[0].isupper() else "a", re.sub(r"\d", "0", text))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _warn(found: Mapping[Name, str], source: str, read: str, remedy: tuple[str, list[str]], when: str) -> None:
    if not found:
        return
    each = "; ".join(list(found.values())[:_SHOWN])
    more = f"; and in {len(found) - _SHOWN} more columns" if len(found) > _SHOWN else ""
    goal = "keep them as texts," if remedy[0] == "keep_na_columns" else "name them,"
    remedies: Remedy = Pass(remedy[0], remedy[1], goal=goal, when=when)
    problem = f"{source}: texts that usually mean missing {read}: {each}{more}"
    warning = DataWarning("na", problem, columns=list(found), remedy=remedies, joint="; ")
    warn(warning)
