"""URLs of databases. This module imports nothing of the package, and nothing heavy."""

from __future__ import annotations

import re


def is_url(place: str) -> bool:
    """Whether a text is the URL of a database.

    >>> is_url("sqlite:///stays.db"), is_url("postgresql+psycopg://me@host/stays"), is_url("C:/stays.csv")
    (True, True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+]*://", place) is not None


def shown_url(url: str) -> str:
    """A URL without its password.

    >>> shown_url("postgresql://me:secret@host/stays")
    'postgresql://me:***@host/stays'
    """
    return re.sub(r"(://[^:/@]*:).*@", r"\1***@", url)
