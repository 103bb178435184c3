"""Results of database queries: SQLite, DuckDB, and by their URLs all that SQLAlchemy reaches. Nothing is written."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Hashable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do, Give, Pass
from missdiff_fast.table.dates import read_dates, with_forms
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.formats.arrow import to_frame
from missdiff_fast.table.formats.base import Format, require
from missdiff_fast.table.objects import as_column
from missdiff_fast.table.sources import Reading, ReadOptions, Source, refuse_twice

_EXTRA = "database"
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|values|table|show)\b", re.IGNORECASE | re.DOTALL)
_SYSTEM = ("information_schema", "pg_catalog")
_TABLES = "SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2"


def file_of(url: str) -> Path | None:
    """The file of a URL of SQLite or DuckDB; None for others.

    >>> file_of("sqlite:///stays.db").name, file_of("sqlite:////data/stays.db").name, file_of("postgresql://host/stays")
    ('stays.db', 'stays.db', None)
    """
    found = re.fullmatch(r"(?:sqlite|duckdb):///(?!file:)([^?]+)(?:\?.*)?", url)
    return None if found is None else Path(found[1])


def read(source: Source, options: ReadOptions) -> Reading:
    """The result of ``options.query``; see `missdiff_fast.table.read_table`."""
    path = file_of(source.url) if source.url else source.path
    if path is None:
        return _read_url(source, options.query), None
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: check the path (the current folder is {Path.cwd()})")
    with open(path, "rb") as stream:
        start = stream.read(16)
    if start[8:12] == b"DUCK":
        return _read_duckdb(path, source.name, options.query), None
    if start != b"SQLite format 3\0":
        raise ValueError(f"{source.name} is no file of SQLite or DuckDB, or it is damaged")
    return _read_sqlite(path, source.name, options.query), None


def _read_sqlite(path: Path, name: str, query: str | None) -> pd.DataFrame:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            if query is None:
                tables = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY 1")
                raise _no_query(name, [str(table) for (table,) in tables])
            result = database.execute(query)
            columns = [str(column[0]) for column in result.description or ()]
            frame = _as_frame(columns, result.fetchall(), name)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _bad_query(name, error) from error
    # SQLite has no dates: by its rules they are texts, and are read as those of CSV files are.
    forms: dict[Hashable, str] = {}
    for column in frame.columns:
        seen = frame[column].dropna()
        texts = seen.tolist() if holds_text(frame[column].dtype) else []
        dates = read_dates(texts) if all(isinstance(text, str) for text in texts) else None
        if dates is not None:
            frame[column] = dates[0].set_axis(seen.index).reindex(frame.index)
            forms[column] = dates[1]
    return with_forms(frame, forms)


def _read_duckdb(path: Path, name: str, query: str | None) -> pd.DataFrame:
    duckdb = require("duckdb", _EXTRA, "a DuckDB file")
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as database:
            if query is None:
                found = [row for row in database.execute(_TABLES).fetchall() if row[0] not in _SYSTEM]
                raise _no_query(name, [table if schema == "main" else f"{schema}.{table}" for schema, table in found])
            statements = duckdb.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise _no_select(name)
            table = database.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise _bad_query(name, error) from error
    _check_names(list(table.column_names), name)
    return to_frame(table)


def _read_url(source: Source, query: str | None) -> pd.DataFrame:
    sqlalchemy = require("sqlalchemy", _EXTRA, "the URL of a database")
    try:
        engine = sqlalchemy.create_engine(source.url)
    except ModuleNotFoundError as error:
        raise ImportError(f"{source.name} needs the package '{error.name}': pip install {error.name}") from error
    except sqlalchemy.exc.ArgumentError as error:  # of an unknown kind of database too
        raise DataError("url", f"{source.name} is no URL that SQLAlchemy knows: {error}") from error
    try:
        with engine.connect() as connection:
            if query is None:
                raise _no_query(source.name, sqlalchemy.inspect(connection).get_table_names())
            if not _QUERY.match(query):
                raise _no_select(source.name)
            # Only PostgreSQL takes note of this; elsewhere what is not committed is undone.
            connection = connection.execution_options(postgresql_readonly=True, no_parameters=True)
            result = connection.exec_driver_sql(query)
            columns, rows = list(result.keys()), result.fetchall()
            connection.rollback()
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise _bad_query(source.name, getattr(error, "orig", None) or error) from error
    finally:
        engine.dispose()
    return _as_frame(columns, rows, source.name)


def _as_frame(columns: Sequence[str], rows: Sequence[Sequence[Any]], source: str) -> pd.DataFrame:
    _check_names(columns, source)
    cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pd.DataFrame({name: as_column(column)[0] for name, column in zip(columns, cells, strict=True)})


def _check_names(columns: Sequence[str], source: str) -> None:
    if not columns:
        raise _no_select(source)
    refuse_twice(list(columns), source, "in the result of the query", Do("name one of them anew with AS"))


def _no_query(source: str, tables: Sequence[str]) -> DataError:
    if not tables:
        return DataError("query", f"{source} holds no tables")
    each = ", ".join(map(repr, tables[:10])) + (", ..." if len(tables) > 10 else "")
    first = ".".join('"' + part.replace('"', '""') + '"' for part in tables[0].split("."))
    remedy = Pass("query", f"SELECT * FROM {first}", goal="say what to read, such as")
    return DataError("query", f"{source} is a database with the tables {each}", value=list(tables), remedy=remedy)


def _no_select(source: str) -> DataError:
    problem = f"{source} is only read: the query must be one SELECT statement"
    return DataError("query", problem, remedy=Give("query"))


def _bad_query(source: str, error: BaseException) -> DataError:
    return DataError("query", f"{source} refuses the query ({error})", remedy=Give("query"))


DATABASE = Format("a database", (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb"), read, options=("query",))
