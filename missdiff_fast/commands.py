"""What each command of ``missdiff`` does, given its parsed options; `missdiff_fast.cli` has the rest."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from missdiff_fast import __version__
from missdiff_fast._errors import UserError
from missdiff_fast._given import parse_all_given
from missdiff_fast.table.io import BINARY, file_kind, read_table, write_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence

    from missdiff_fast.model import MissDiff


def fit(args: argparse.Namespace) -> None:
    """Train a model on a table and save it, also when Ctrl-C cuts the training short."""
    check_output(args.output, args.data)
    missing_values = _markers(args.missing_values)
    frame = _read(args, missing_values)
    frame = frame.drop(columns=_known(args.drop, frame, "--drop"))
    holes = float(frame.isna().to_numpy().mean()) if frame.size else 0.0
    _say(args, f"{args.data}: {len(frame):,} rows, {frame.shape[1]} columns, {holes:.1%} of the cells missing")
    from missdiff_fast.model import MissDiff

    model = MissDiff(
        steps=args.steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        width=args.width,
        blocks=args.blocks,
        random_state=args.seed,
        device=args.device,
        backend=args.backend,
        refine=args.refine,
        verbose=not args.quiet,
        missing_values=missing_values,
        max_categories=args.max_categories,
    )
    started = time.perf_counter()
    try:
        model.fit(frame, categorical_columns=args.categorical or None)
        model.save(args.output)
    except KeyboardInterrupt:
        if not hasattr(model, "history_"):
            raise KeyboardInterrupt("training had not begun, so there is no model") from None
        model.save(args.output)
        steps = int(model.history_["step"].max()) if len(model.history_) else 0
        raise KeyboardInterrupt(
            f"the model as trained so far ({steps or 'fewer than 50'} steps) is in {args.output}"
        ) from None
    _say(args, f"{args.output}: the model, trained in {time.perf_counter() - started:.0f} s")


def sample(args: argparse.Namespace) -> None:
    """Write synthetic rows."""
    _check_table_output(args.output, args.model)
    model = _load(args)
    given = parse_all_given(model.codec_, args.given)
    _write(model.sample(args.num_rows, given=given or None, random_state=args.seed), args.output)


def impute(args: argparse.Namespace) -> None:
    """Write a table with its holes filled, or several random fillings of it."""
    if args.draws is None:
        outputs = [args.output]
    elif args.draws < 1:
        raise UserError(f"--draws must be at least 1, not {args.draws}")
    elif args.output is None:
        raise UserError("--draws writes one file for each draw: say where with -o OUT")
    else:
        outputs = [numbered(args.output, m + 1) for m in range(args.draws)]
    for output in outputs:
        _check_table_output(output, args.model, args.data)
    _check_input(args.data)
    model = _load(args)
    # A part of a table may hold only digits, or nothing, where the whole had strings too.
    strings = [str(column.name) for column in model.codec_.schema if column.family == "string"]
    markers = _markers(args.missing_values) or model.missing_values
    frame = _read(args, markers, [*strings, *args.keep], keep_blank_rows=True)
    kept = _known(args.keep, frame, "--keep")
    table = frame.drop(columns=kept)
    extra = [column for column in table.columns if column not in set(model.columns_)]
    if extra:
        raise UserError(
            f"{args.data} has columns the model does not know: {extra}; --keep {extra[0]!r} copies one as it is"
        )
    if args.draws is None:
        tables = [model.impute(table)]
    else:
        tables = model.impute_draws(table, args.draws, random_state=args.seed)
    for filled, output in zip(tables, outputs, strict=True):
        filled = pd.concat([filled, frame[kept]], axis=1)[list(frame.columns)] if kept else filled
        _write(filled, output)


def info(args: argparse.Namespace) -> None:
    """Print facts about this installation, or about a model."""
    _check_stdout()
    import torch

    from missdiff_fast._library import build_info

    if args.model is None:
        facts = build_info() | {
            "version": __version__,
            "torch_threads": str(torch.get_num_threads()),
            "cuda_devices": str(torch.cuda.device_count()),
        }
        _print_pairs({name.replace("_", " "): text for name, text in facts.items()})
        return
    from missdiff_fast.model import MissDiff

    model = MissDiff.load(args.model, device="cpu", backend="reference")
    history, columns = model.history_, describe_columns(model)
    _print_pairs(
        {
            "model": str(args.model),
            "preset": model.preset,
            "seed of fit": str(model.seed_),
            "steps": f"{int(history['step'].max()):,}" if len(history) else "fewer than 50",
            "training": f"{history['seconds'].max():.0f} s" if len(history) else "cut short",
            "last loss": f"{history['loss'].iloc[-1]:.3f}" if len(history) else "unknown",
            "columns": str(len(columns)),
        }
    )
    print(f"\n{columns.to_string(index=False)}")


def demo(args: argparse.Namespace) -> None:
    """Run the main job on the Census table."""
    from missdiff_fast.demo import run

    run(args.output, steps=args.steps, seed=args.seed, device=args.device, backend=args.backend, verbose=not args.quiet)


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse, before any work, a file that cannot be written in the end, or that would overwrite what is read.

    Raises
    ------
    UserError
        The folder is missing or cannot be written to, or the path is a folder or one of the inputs.
    """
    if path.is_dir():
        raise UserError(f"-o {path} is a folder; give the name of a file")
    if _is_stream(path):
        return
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise UserError(f"-o {path} would overwrite {source}, which is read; give the output another name")
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: there is no folder {path.parent}; make it first (mkdir -p {path.parent})")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UserError(f"-o {path}: the folder {path.parent} cannot be written to ({error.strerror})") from error


def numbered(path: Path, number: int) -> Path:
    """Put a number before the suffixes that tell a table's format.

    Examples
    --------
    >>> numbered(Path("to/filled.v2.csv.gz"), 3).as_posix()
    'to/filled.v2-3.csv.gz'
    """
    _, compression = file_kind(path)
    plain = Path(path.name.removesuffix(compression))
    return path.with_name(f"{plain.stem}-{number}{plain.suffix}{compression}")


def describe_columns(model: MissDiff) -> pd.DataFrame:
    """Tabulate a model's columns: ``column``, ``kind``, ``dtype`` and the number of ``categories`` ("" for none)."""
    rows = []
    for column in model.codec_.schema:
        known = len(model.codec_.category_values(column.name)) if column.kind == "categorical" else ""
        dtype = "category" if isinstance(column.dtype, pd.CategoricalDtype) else str(column.dtype)
        rows.append((column.name, column.kind, dtype, known))
    return pd.DataFrame(rows, columns=["column", "kind", "dtype", "categories"])


def _read(
    args: argparse.Namespace,
    missing_values: Sequence[object],
    string_columns: Collection[str] = (),
    *,
    keep_blank_rows: bool = False,
) -> pd.DataFrame:
    _check_input(args.data)
    try:
        frame = read_table(
            args.data,
            separator=args.separator,
            decimal=args.decimal,
            encoding=args.encoding,
            missing_values=missing_values,
            header=args.header,
            skip_rows=args.skip_rows,
            string_columns=string_columns,
            keep_blank_rows=keep_blank_rows,
        )
    except (ValueError, TypeError, LookupError) as error:
        text = str(error)
        raise UserError(text if args.data.name in text else f"{args.data} cannot be read: {text}") from error
    if not args.header:
        frame.columns = frame.columns.map(str)  # names as options give them, and as the tables we write have them
    return frame if file_kind(args.data)[0] in BINARY else frame.apply(_whole)


def _whole(column: pd.Series) -> pd.Series:
    """Make a column of whole numbers with holes one of integers: text has no dtypes, and pandas takes it for float."""
    if column.dtype != "float64" or not column.hasnans or not column.notna().any():
        return column
    seen = column.dropna()
    return column.astype("Int64") if bool((seen.mod(1) == 0).all() and (seen.abs() < 2**53).all()) else column


def _markers(texts: list[str]) -> list[str | float]:
    """Each mark as it is written, and as a number too where it is one, so that -999 also stands for -999.0."""
    return [*texts, *(float(text) for text in texts if _is_finite(text))]


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _load(args: argparse.Namespace) -> MissDiff:
    _check_input(args.model)
    from missdiff_fast.model import MissDiff

    model = MissDiff.load(args.model, device=args.device, backend=args.backend)
    model.verbose = not args.quiet
    return model


def _check_input(path: Path) -> None:
    if not path.exists():
        raise UserError(f"{path}: there is no such file")
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a file")


def _check_table_output(path: Path | None, *inputs: Path) -> None:
    if path is None:
        _check_stdout()
        return
    check_output(path, *inputs)
    if path.suffix or not _is_stream(path):
        file_kind(path)


def _check_stdout() -> None:
    if sys.stdout is None:  # as Python has it where the shell closed it, `>&-`
        raise UserError("stdout is closed, and the result goes there; leave it open, or send it to a file (> FILE)")


def _is_stream(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as /dev/stdout, which is one too where it leads to a file."""
    if path.as_posix() in ("/dev/stdout", "/dev/stderr") or path.parent.as_posix() == "/dev/fd":
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def _write(frame: pd.DataFrame, path: Path | None) -> None:
    if path is None:
        frame.to_csv(sys.stdout, index=False)
    elif _is_stream(path) and not path.suffix:
        with open(path, "w", encoding="utf-8", newline="") as stream:
            frame.to_csv(stream, index=False)
    else:
        write_table(frame, path)


def _known(names: list[str], frame: pd.DataFrame, option: str) -> list[str]:
    for name in names:
        if name not in frame.columns:
            raise UserError(f"{option} {name!r}: the table has no such column; it has {list(frame.columns)}")
    return names


def _say(args: argparse.Namespace, text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty() and not args.quiet:
        print(text, file=sys.stderr)


def _print_pairs(pairs: dict[str, str]) -> None:
    width = max(len(name) for name in pairs)
    for name, text in pairs.items():
        print(f"{name:<{width}}  {text}")
