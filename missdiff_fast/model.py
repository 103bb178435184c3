"""The estimator: fit a table with missing cells, sample rows, impute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from missdiff_fast._checks import MAX_ROWS, check_boolean, check_count
from missdiff_fast._engine import checkpoint
from missdiff_fast._engine.backend import Backend, resolve_backend
from missdiff_fast._engine.device import plain_settings, resolve_device
from missdiff_fast._engine.history import History
from missdiff_fast._engine.random import RandomState, check_seed, derive, row_uniform
from missdiff_fast._estimator import NotFittedError
from missdiff_fast._frames import Frame, Kind, to_pandas
from missdiff_fast._inputs import as_frame, refuse_column_names
from missdiff_fast._parameters import (
    Parameters,
    configure,
    from_json,
    keeps_structural,
    most_categories,
    to_json,
    treatments,
)
from missdiff_fast.config import AnyConfig, Config, from_dict
from missdiff_fast.errors import DataWarning, argument_error, warn
from missdiff_fast.methods import make_method
from missdiff_fast.methods.base import part
from missdiff_fast.plan import Plan, make_plan, read_treated
from missdiff_fast.remedies import Do
from missdiff_fast.rules import Rules, keep_drawn, keep_imputed, learn_rules, load_rules, warn_of_broken
from missdiff_fast.table import Codec, EncodedTable, TableCells
from missdiff_fast.table.aside import Asides
from missdiff_fast.table.conditions import Condition, cells_that_meet, split_conditions
from missdiff_fast.table.dialect import Dialect, dialect_of
from missdiff_fast.table.given import given_frame, in_learnt_dtypes, read_given_dates, without_order
from missdiff_fast.table.holes import Holes
from missdiff_fast.table.limit_notes import warn_of_limits
from missdiff_fast.table.schema import check_frame

_CHOICE = ["setting", "value", "reason"]  # columns of `MissDiff.training_`


class MissDiff(Parameters):
    """A diffusion model of a table with missing cells.

    Tables may be DataFrames of pandas or polars or Tables of pyarrow, called DataFrames below; results are of the kind
    of the argument.

    Parameters
    ----------
    preset : str
        "default", or "paper" for MissDiff as Ouyang et al. publish it: slower, and the baseline of the default.
    effort : str
        "quick" (about a third of the default's time), "default", or "best" (about ten times it): length of training,
        width of the network and noise levels.
    budget : str or float, optional
        The time that `fit` may take once the columns are encoded, such as "2min" or a number of seconds; the length of
        training is what it allows on this machine. ``training_`` tells the steps, with which a fit can be repeated.
    steps, epochs : int, optional
        Length of training: steps (of the default preset, before refinement) or passes over the rows; not both.
    batch_size, learning_rate, width, blocks : optional
        Rows in a step; peak learning rate; width and number of the network's residual blocks. None keeps the preset's
        value. The default preset chooses steps and batch size from the number of rows.
    refine : int or bool, optional
        Rounds of refinement: fill the holes with conditional draws, then train on. None or True chooses by the share of
        missing cells; 0 or False turns it off. Without refinement a table with many or systematic holes is modelled
        badly. The preset "paper" has none.
    refits : int
        Networks that fit trains further on bootstrap samples of the rows. `impute_draws` takes them in turn, so that
        its tables differ as those of fits to other rows would: proper multiple imputation. Give as many as tables that
        you draw. Each takes half of the steps of a fit without refinement; 0 is none.
    categorical_columns : sequence of str, optional
        Numeric columns whose values are names, not amounts. Strings, booleans and categories are always categorical.
    treatments : mapping, optional
        What a column is, where it is not to be found out from its cells: "continuous", "categorical", "identifier"
        (rows drawn have fresh ones) or "text" (rows drawn lack it), such as ``{"ward_id": "categorical"}``. `plan`
        tells what is found out.
    rules : sequence of str
        What holds in all rows that are drawn or imputed: ranges and inequalities such as ``"0 <= age <= 120"`` and
        ``"admission <= discharge"``, columns that are computed such as ``"bmi = weight / height**2"``, and
        ``"combinations(ward, hospital)"``, which come only as in the training table. Names that are no Python names go
        in backticks. Known cells are never changed; a warning tells how many rows break a rule by them.
    missing_values : sequence
        Values that stand for a missing cell beside NaN, None, NaT and pd.NA, such as ``["?"]``.
    structural_missing : str, optional
        "keep" (as None) leaves a hole, in rows drawn and imputed, where what another column says means that there is no
        cell, as there is no death date of the living; "fill" fills it. `fit` finds and tells such columns
        (``structural_``).
    max_categories : int, optional
        A column with more categories is refused; one of more than 10,000 different texts is set aside as free text,
        unless this is greater. None is 10,000, which cost little with the default preset, and 100 with the preset
        "paper", whose cost grows with their number.
    settings : mapping, optional
        Any other setting of the preset by its path in `missdiff_fast.config`, such as ``{"solver.steps": 20}``.
    random_state : int, numpy.random.Generator or numpy.random.RandomState, optional
        Seed of everything random. None takes a new seed from the system's entropy at every call, a generator draws one
        from itself at every call.
    device : str
        "auto", "cpu", "cuda" or, of several, "cuda:1". "cuda" is the current one; under torchrun that of the process.
    backend : str
        "native" (compiled ops), "reference" (plain PyTorch) or "auto".
    verbose : bool
        Whether to show progress bars, where stderr is a terminal.

    Attributes
    ----------
    history_ : DataFrame
        step, loss and seconds, one row for every 50 steps and the last of a phase. The loss jumps where refinement
        begins: it then includes drawn cells, and its divisor is the number of all cells, not of the observed ones. With
        ``training.patience`` also held_back, the loss on held-back rows, NaN where it was not measured. A loaded model
        has NaN for seconds.
    training_ : DataFrame
        setting, value and reason: what was chosen for the table, above all the length of training. A training that
        ended early has a row "steps of fit" with the steps that it took.
    columns_ : list
        The names of the columns; those of an array are x0, x1, ...
    n_features_in_ : int
        The number of columns.
    set_aside_ : DataFrame
        Columns that are not learnt, a row for each: ``column``, ``kind`` ("identifier", "text", or "empty" where no
        cell is observed) and ``seen``. Rows drawn have fresh identifiers, no text and an empty column; imputed tables
        keep these columns as they are.
    relations_ : DataFrame
        Columns that others determine, a row for each: ``column``, ``kind`` ("difference", "linear", "log-linear",
        "determined" or "step"), ``from`` (a list of columns) and ``formula``. Rows that are drawn or imputed keep them.
    structural_ : DataFrame
        Columns with structural holes: ``column``; ``source``, the column that explains them; ``values``, a list of its
        values with which the cell is always missing; ``rows``, how many training rows have these; and ``elsewhere``,
        the share of the others that have the cell.
    frame_kind_ : str
        The kind of frame that `sample` gives, "pandas", "polars" or "pyarrow": the kind that fit saw. It may be set.
    rules_ : DataFrame
        The rules, a row for each: ``rule``, ``kind`` ("range", "inequality", "derived" or "combinations"), ``columns``
        (a list), ``rows``, the training rows in which all of its cells are observed, and ``broken``, those of them that
        break it.
    feature_names_in_ : ndarray of str
        The names of the columns, if fit got a DataFrame whose names are all strings.
    seed_ : int
        The seed that fit used.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from missdiff_fast import MissDiff
    >>> table = pd.DataFrame({"age": [31, 52, np.nan, 47] * 8, "smoker": ["no", None, "yes", "no"] * 8})
    >>> model = MissDiff(steps=5, random_state=0).fit(table)
    >>> model.sample(3).shape
    (3, 2)
    >>> int(model.impute(table).isna().sum().sum())
    0
    """

    _kind: Kind  # of the frame that fit saw
    dialect_: Dialect | None = None  # of the text that the command read for fit

    @plain_settings()
    def fit(self, X: Frame | np.ndarray, y: object = None) -> MissDiff:
        """Learn the table's distribution from its observed cells.

        Parameters
        ----------
        X : DataFrame or ndarray
            N rows; missing cells are NaN, null, None, NaT, pd.NA or one of ``missing_values``. A column of texts that
            are all numbers or limits of measurement, such as ``<0.1``, is one of numbers, with a warning; limits are
            drawn and filled in as texts.
        y : ignored
            Present by scikit-learn's convention. A list of X's columns is refused: ``categorical_columns`` is an
            argument of the constructor.

        Returns
        -------
        MissDiff
            Itself. If fit is interrupted (Ctrl-C) after training began, the model trained so far is kept and can be
            used; KeyboardInterrupt is raised all the same.

        Raises
        ------
        ValueError, TypeError
            The settings or the table cannot be used; the message names the column and the remedy.
        FloatingPointError
            Training diverged.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "zip": [10115, 8001, 1010, None] * 8})
        >>> MissDiff(steps=2, refine=0, categorical_columns=["zip"], random_state=0).fit(table).columns_
        ['x', 'zip']
        """
        config, is_array = configure(self), isinstance(X, np.ndarray)
        seed = check_seed(self.random_state)
        device = resolve_device(self.device)
        backend = resolve_backend(self.backend, device)
        X, kind = to_pandas(as_frame(X))
        refuse_column_names(y, X)
        asides, codec, table, holes, rules = self._encoded(X, seed, backend, config)
        table = table.to(device)
        # Rows without observed cells contribute nothing to the loss.
        table = table.rows(table.observed().any(1).nonzero()[:, 0])
        self.config_, self.seed_, self.device_ = config, seed, device
        self._learn_columns(asides, codec, holes, rules, kind, is_array=is_array)
        self.dialect_ = dialect_of(X)
        self._method, history = make_method(codec, config, device, backend), History()
        try:
            self._method.fit(table, seed, history, verbose=self.verbose)
        except FloatingPointError:
            del self._method  # its weights are not finite
            raise
        finally:
            self.history_ = history.frame()
            self.training_ = pd.DataFrame(history.choices, columns=_CHOICE, dtype=object)
        return self

    def plan(self, X: Frame | np.ndarray) -> Plan:
        """What `fit` would do with each column of a table, and what to look at before; nothing is trained.

        Parameters
        ----------
        X : DataFrame or ndarray
            N rows, as for `fit`.

        Returns
        -------
        Plan
            Printed, it is a table. `Plan.to_toml` writes it as a file that ``missdiff fit --config`` reads.

        Raises
        ------
        ValueError, TypeError
            The settings cannot be used, or X is no table. Columns that `fit` would refuse are in the plan.

        Examples
        --------
        >>> table = pd.DataFrame({"patient_id": range(101, 221), "age": [31, 52, None, 47, 28, 66] * 20})
        >>> print(MissDiff().plan(table))
        120 rows, 2 columns
            column   dtype missing distinct  treatment warnings
        patient_id   int64       -      120 identifier        -
               age float64     17%        5 continuous        -
        """
        configure(self)
        X, kind = to_pandas(as_frame(X))
        return make_plan(self, X, kind.dtype)

    @plain_settings()
    def sample(
        self,
        num_rows: int | None = None,
        *,
        given: Mapping[str, object] | Frame | None = None,
        missing: bool = False,
        first_row: int = 0,
        random_state: RandomState = None,
    ) -> Frame:
        """Draw synthetic rows: complete ones but for structural holes, or rows with holes like those of the table.

        Parameters
        ----------
        num_rows : int, optional
            How many. May be left out where ``given`` is a DataFrame, whose rows are then completed one for one.
        given : mapping or DataFrame, optional
            Known values: a mapping from column to value, the same for all rows, or a table of partly known rows (absent
            columns and missing cells are drawn). The draw is conditional on them, not a selection among many. Values
            beyond the training table's range are kept, with a warning. In a mapping a `pandas.Interval` is a range of
            numbers or times, and a list or set some values, such as ``{"age": pd.Interval(60, 80, "both"),
            "ward": ["A", "B"]}``. The cells of such columns are those of drawn rows that meet all these conditions, at
            least 1,000 where so many are found among 131,072; the others are drawn given them.
        missing : bool
            Whether the rows have holes as often, and where, as the training rows. Each row has the holes of one of
            these, chosen at random (of 131,072 where there are more), and its other cells are drawn as those of rows
            with such holes are distributed.
            Observed values and holes then depend on one another as in the table, where a laboratory value may be
            measured in the sicker patients alone; otherwise a row has a value for every patient, but for structural
            holes (``structural_missing``). A column of NumPy integers or booleans that has holes gets pandas' nullable
            dtype. Not together with ``given``.
        first_row : int
            The number of the first row. Row i depends on the seed and i alone: rows 0 to 9 and, with ``first_row=10``,
            the next ten are together a sample of twenty rows. With a random_state of None or a generator, every call
            has a new seed.
        random_state : int or generator, optional
            Seed; None takes the model's ``random_state``.

        Returns
        -------
        DataFrame
            ``num_rows`` rows with the columns, dtypes, categories and range of the training table, and of its kind, or
            the kind of ``given`` where that is a frame. Drawn numbers are
            observed ones, except in columns that others determine (``relations_``), which are computed. Of columns that
            were not learnt (``set_aside_``) identifiers are fresh ones, the same in every draw of a row number, free
            text is left out, and the others are empty. Identifiers have no holes and do not repeat; those of a category
            dtype have the dtype of the categories, and a dtype too narrow for them is widened.

        Raises
        ------
        ValueError, TypeError
            Bad number of rows or first row; unknown column or value in ``given``; fewer than 20 of the drawn rows meet
            the conditions; ``missing`` together with ``given``, with the preset "paper", which draws complete rows
            alone, or where the fit did not train a network for it: it was interrupted, or ``incomplete.step_share`` is
            0.
        NotFittedError
            The model is not fitted, here as in all methods below.
        ImportError
            The rows are to be a polars DataFrame, and polars is not installed.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
        >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
        >>> model.sample(5).shape
        (5, 2)
        >>> model.sample(3, given={"y": "b"})["y"].tolist()
        ['b', 'b', 'b']
        >>> model.sample(given=pd.DataFrame({"x": [4.0, None]})).notna().all().tolist()  # rows completed one for one
        [True, True]
        >>> model.sample(6, missing=True).isna().any().tolist()
        [True, True]
        >>> model.sample(2, first_row=3).equals(model.sample(5)[3:].reset_index(drop=True))
        True
        """
        self._check_fitted()
        check_count("first_row", first_row, least=0, most=MAX_ROWS)
        check_boolean("missing", missing)
        if missing:
            self._check_draws_holes(given)
        seed = derive(check_seed(self.random_state if random_state is None else random_state), "sample")
        given, kind = to_pandas(given)
        kind = self._kind.named(kind.name) if isinstance(given, pd.DataFrame) else self._kind
        if isinstance(given, Mapping):
            given, conditions = split_conditions(given, self.codec_)
            if conditions:
                given = self._meeting(conditions, num_rows, given, seed, first_row)
        frame, known = self._known(num_rows, given)
        self.codec_.check_constants(known)
        self.codec_.warn_of_range(known)
        if missing and self._holes.any:
            rows = self._incomplete(known, seed, first_row)
            return kind.give(self.asides_.complete(rows, first_row=first_row))
        return kind.give(self.asides_.complete(self._complete(known, seed, first_row), frame, first_row=first_row))

    @plain_settings()
    def impute(self, X: Frame | np.ndarray) -> Frame:
        """Fill the missing cells with conditional means (numbers, times) and most probable categories.

        The preset "paper" takes the median of many draws of every encoded cell, as the authors' code does.

        Parameters
        ----------
        X : DataFrame or, if fit got one, ndarray
            Rows with the columns that fit saw.

        Returns
        -------
        DataFrame
            X with its missing cells filled, but for structural holes (``structural_missing``); observed cells are the
            same bit for bit, and so are columns that were not learnt (``set_aside_``).

        Raises
        ------
        ValueError, TypeError
            X does not have the columns, dtypes and categories that fit saw.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
        >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
        >>> filled = model.impute(table)
        >>> filled.isna().sum().to_dict(), filled["x"][:2].tolist()
        ({'x': 0, 'y': 0}, [1.0, 2.0])
        """
        self._check_fitted()
        own = self._named(X)
        X, kind = to_pandas(own)
        cells = self._read(X)
        table = self.codec_.encode(cells, verbose=self.verbose).to(self.device_)
        filled = self._method.impute(table, derive(self.seed_, "impute"), verbose=self.verbose)
        keeps = keeps_structural(self)
        filled = keep_imputed(self._rules, self.codec_, filled, cells, recorded=keeps, structural=keeps)
        return kind.give(self._filled(X, cells, filled), own)

    @plain_settings()
    def impute_draws(
        self, X: Frame | np.ndarray, num_draws: int = 5, *, random_state: RandomState = None
    ) -> list[Frame]:
        """Fill the missing cells with draws from their distribution given the observed cells of their row.

        A model fitted with ``refits`` takes another of them for each table, and begins anew after the last: the spread
        between the tables then holds the uncertainty of the fit too, as pooling by Rubin's rules supposes.

        Parameters
        ----------
        X : DataFrame or, if fit got one, ndarray
            Rows with the columns that fit saw.
        num_draws : int
            How many complete tables.
        random_state : int or generator, optional
            Seed; None takes the model's ``random_state``.

        Returns
        -------
        list of DataFrame
            ``num_draws`` tables, complete but for structural holes (``structural_missing``). Their spread shows the
            uncertainty of each filled cell.

        Raises
        ------
        ValueError, TypeError
            As in `impute`, and for a bad ``num_draws``.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
        >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
        >>> [draw.isna().sum().to_dict() for draw in model.impute_draws(table, num_draws=2)]
        [{'x': 0, 'y': 0}, {'x': 0, 'y': 0}]
        """
        self._check_fitted()
        own = self._named(X)
        X, kind = to_pandas(own)
        check_count("num_draws", num_draws, least=1)
        seed = check_seed(self.random_state if random_state is None else random_state)
        cells = self._read(X)
        known = self.codec_.encode(cells, verbose=self.verbose).to(self.device_)
        seeds = [derive(seed, "draws", m) for m in range(num_draws)]
        tables, refits = [], self._method.num_refits
        for m, s in enumerate(seeds):
            refit, desc = m % refits if refits else None, f"draw {m + 1}/{num_draws}"
            recorded = keeps_structural(self)
            drawn = self._drawn(known, cells, s, recorded=recorded, conditional=True, refit=refit, desc=desc)
            tables.append(kind.give(self._filled(X, cells, drawn), own))
        return tables

    @plain_settings()
    def predict_proba(self, X: Frame | np.ndarray, column: str) -> Frame:
        """The probability of each category of one column given the other cells of the row.

        Parameters
        ----------
        X : DataFrame or, if fit got one, ndarray
            Rows with the columns that fit saw; ``column`` is not read and may be absent.
        column : str
            A categorical column.

        Returns
        -------
        DataFrame
            ``[N, V]``, a column for each category, with the index of X; rows sum to 1.

        Raises
        ------
        ValueError
            ``column`` is not categorical.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
        >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
        >>> chance = model.predict_proba(table[["x"]], "y")
        >>> list(chance.columns), chance.shape
        (['a', 'b'], (32, 2))
        """
        self._check_fitted()
        X, kind = self._frame(X)
        check_frame(X)
        if isinstance(column, (str, int)):
            self.asides_.check_learnt(column)
        categories = self.codec_.category_values(column)
        group = self.codec_.group(column)
        cells = self._read(_without(X, column))
        table = self.codec_.encode(cells).to(self.device_)
        chance = self._method.predict_proba(table, group, derive(self.seed_, "impute"), verbose=self.verbose).numpy()
        allowed = self.codec_.allowed(column, cells)
        if allowed is not None:
            chance = np.where(allowed, np.maximum(chance, np.finfo(chance.dtype).tiny), 0)
            chance /= chance.sum(1, keepdims=True)
        return kind.bare.give(pd.DataFrame(chance, index=X.index, columns=pd.Index(categories, name=column)))

    @plain_settings()
    def score_samples(self, X: Frame | np.ndarray, num_draws: int = 1, random_state: RandomState = None) -> Any:
        """An upper bound on the negative log-likelihood of each row's observed cells.

        The evidence bound of the discrete-time noising process, estimated with ``num_draws`` draws of the noise at each
        level. A likelier row has a smaller bound. The density is that of the encoded cells, so only values of one model
        can be compared. Constant columns do not enter.

        The bound is a sum over the row's observed cells, whose terms may have either sign; a row without observed cells
        has 0. Compare complete rows, or rows with the same columns observed: otherwise the number and kind of the
        observed cells decide more than how unusual they are. Dividing the bound by their number does not correct this
        where columns differ in kind.

        With the preset "paper" it is the right-hand side of Theorem 3.2, with its factor ``1 / (1 - rho_max)``. For
        rows with missing cells this is a bound only as far as Theorem 3.1 holds (`missdiff_fast.theory`). The default
        preset models the observed columns of a row alone and needs no factor.

        The default preset encodes a number by its rank among those that fit saw: a number beyond their range scores
        like the nearest end of the range, however far away it is. The residuals of columns that others determine
        (``relations_``) do not count: they are functions of cells that do.

        Parameters
        ----------
        X : DataFrame or, if fit got one, ndarray
            Rows with the columns that fit saw, holes among them.
        num_draws : int
            The error of the estimate falls with the square root of this number.
        random_state : int or generator, optional
            Seed of the noise; None takes the model's ``random_state``.

        Returns
        -------
        Series or ChunkedArray
            In nats, with the index of X. (scikit-learn's method of this name returns greater values for likelier rows.)

        Raises
        ------
        ValueError, TypeError
            X does not have the columns, dtypes and categories that fit saw, or a bad ``num_draws``.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
        >>> model = MissDiff(steps=5, refine=0, random_state=0).fit(table)
        >>> bool(model.score_samples(table, num_draws=2).notna().all())
        True
        """
        self._check_fitted()
        X, kind = self._frame(X)
        check_count("num_draws", num_draws, least=1)
        seed = check_seed(self.random_state if random_state is None else random_state)
        cells = self._read(X)
        table = self.codec_.encode(cells, verbose=self.verbose).to(self.device_)
        seeds = [derive(seed, "bound", m) for m in range(num_draws)]
        bound = torch.stack([self._method.nll_bound(table, s, verbose=self.verbose) for s in seeds]).mean(0)
        return kind.give_column(pd.Series(bound.numpy(), index=X.index, name="negative_log_likelihood_bound"))

    def save(self, path: str | Path) -> None:
        """Write the model to one file: safetensors with a JSON header, no pickle.

        Fits of the same table with the same seed and settings, on one machine and with as many threads, give files of
        the same bytes. So the seconds of ``history_`` are not stored. (With ``budget`` the number of steps depends on
        the time; give the steps that ``training_`` tells.)

        Parameters
        ----------
        path : str or Path
            The file. An existing one is replaced only when the new one is complete.

        Raises
        ------
        OSError
            The file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
        >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(Path(folder) / "table.missdiff")
        ...     same = MissDiff.load(Path(folder) / "table.missdiff")
        >>> same.sample(3).equals(model.sample(3))
        True
        """
        self._check_fitted()
        meta, tensors = self.codec_.state()
        tensors = {f"codec.{name}": tensor for name, tensor in tensors.items()} | self._method.weights()
        tensors |= {f"holes.{name}": tensor for name, tensor in self._holes.tensors().items()}
        kind = self._kind.state()
        tensors |= {f"rules.{name}": tensor for name, tensor in self._rules.tensors().items()}
        checkpoint.write(
            path,
            ({} if kind is None else {"frame": kind})
            | ({} if self.dialect_ is None else {"dialect": self.dialect_.state()})
            | {
                "parameters": to_json(self),
                "config": self.config_.to_dict(),
                "seed": self.seed_,
                "array": self._fitted_on_array,
                "asides": self.asides_.state(),
                "rules": self._rules.state(),
                "codec": meta,
                # Without the seconds, which differ from one fit to the next.
                "history": {
                    name: [None if x != x else x for x in column.tolist()]
                    for name, column in self.history_.drop(columns="seconds").items()
                },
                "training": self.training_.to_numpy().tolist(),
            },
            tensors,
        )

    @classmethod
    @plain_settings()
    def load(cls, path: str | Path, device: str = "auto", backend: str = "auto") -> MissDiff:
        """Read a model that `save` wrote, on any device.

        Parameters
        ----------
        path : str or Path
            The file.
        device, backend : str
            Device and backend of the loaded model.

        Raises
        ------
        FileNotFoundError, ValueError
            The file does not exist; it is truncated, no model, or of another version's format.

        Examples
        --------
        >>> import tempfile
        >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "table.missdiff"
        ...     MissDiff(steps=2, refine=0, random_state=0).fit(table).save(path)
        ...     model = MissDiff.load(path, device="cpu")
        >>> model.columns_, model.history_["step"].tolist()
        (['x'], [2, 3])
        """
        meta, tensors = checkpoint.read(path)
        try:
            model = cls(**from_json(meta["parameters"]), device=device, backend=backend)
            model.config_, model.seed_ = from_dict(meta["config"]), meta["seed"]
            model.device_ = resolve_device(device)
            ops = resolve_backend(backend, model.device_)
            codec = Codec.from_state(meta["codec"], part(tensors, "codec"), ops=ops)
            asides, holes = Asides.from_state(meta["asides"]), Holes.of(codec.columns, part(tensors, "holes"))
            learnt, theirs = meta.get("rules", ()), part(tensors, "rules")
            rules = load_rules(model.rules, codec.schema, codec.relations.coders, learnt, theirs)
            kind = Kind.from_state(meta.get("frame"))
            model._learn_columns(asides, codec, holes, rules, kind, is_array=meta["array"])
            model.dialect_ = Dialect.from_state(meta["dialect"]) if "dialect" in meta else None
            model.history_ = _history(meta["history"])
            model.training_ = pd.DataFrame(meta["training"], columns=_CHOICE, dtype=object)
            model._method = make_method(model.codec_, model.config_, model.device_, ops)
            model._method.load(tensors)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"{path} is no usable model: its description and its tensors do not fit ({error})"
            ) from error
        return model

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if hasattr(self, "_method"):
            # The process that unpickles may lack the extension.
            self._method.backend = self.codec_.ops = resolve_backend(self.backend, self.device_)

    @property
    def fitted(self) -> bool:
        """Whether there is a model to draw from: after `fit`, even if it was interrupted, or `load`."""
        return hasattr(self, "_method") and self._method.fitted

    @property
    def frame_kind_(self) -> str:
        """The kind of frame that `sample` gives: "pandas", "polars" or "pyarrow", as `fit` saw; may be set.

        Examples
        --------
        >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(pd.DataFrame({"x": [1, 2, 3, 4] * 8}))
        >>> model.frame_kind_ = "pyarrow"
        >>> model.sample(2).num_rows
        2
        """
        if not hasattr(self, "_kind"):
            raise AttributeError("frame_kind_ is known after fit")
        return self._kind.name

    @frame_kind_.setter
    def frame_kind_(self, name: str) -> None:
        self._check_fitted()
        self._kind = self._kind.named(name)

    @property
    def relations_(self) -> pd.DataFrame:
        """Columns that others determine, a row for each; see the class.

        Examples
        --------
        >>> minutes = np.arange(200) % 70 * 3
        >>> table = pd.DataFrame({"minutes": minutes, "charge": (0.17 * minutes).round(2)})
        >>> MissDiff(steps=2, refine=0, random_state=0).fit(table).relations_[["column", "formula"]].values.tolist()
        [['charge', '0.17 * minutes']]
        """
        if not hasattr(self, "codec_"):
            raise AttributeError("relations_ is known after fit")
        return self.codec_.relations.frame()

    @property
    def rules_(self) -> pd.DataFrame:
        """The rules, a row for each; see the class.

        Examples
        --------
        >>> table = pd.DataFrame({"age": [31, 52, None, 47] * 8, "since": [12, 50, 3, None] * 8})
        >>> model = MissDiff(rules=["0 <= since <= age"], steps=2, refine=0, random_state=0).fit(table)
        >>> model.rules_[["rule", "broken"]].values.tolist()
        [['0 <= since <= age', 0]]
        >>> rows = model.sample(50)
        >>> bool((rows["since"] <= rows["age"]).all())
        True
        """
        if not hasattr(self, "_rules"):
            raise AttributeError("rules_ is known after fit")
        return self._rules.frame()

    @property
    def set_aside_(self) -> pd.DataFrame:
        """Columns that are not learnt, a row for each; see the class.

        Examples
        --------
        >>> import warnings
        >>> table = pd.DataFrame({"id": [f"P{i:03}" for i in range(40)], "x": [1.0, None, 3.0, 4.0] * 10})
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
        >>> model.set_aside_.values.tolist()
        [['id', 'identifier', '40 distinct texts in 40 cells']]
        >>> model.sample(2)["id"].tolist()
        ['P040', 'P041']
        """
        if not hasattr(self, "asides_"):
            raise AttributeError("set_aside_ is known after fit")
        return self.asides_.frame()

    @property
    def structural_(self) -> pd.DataFrame:
        """Columns whose holes another column explains, a row for each; see the class.

        Examples
        --------
        >>> dead = np.arange(100) % 3 == 0
        >>> table = pd.DataFrame({"dead": np.where(dead, "yes", "no"), "days": np.arange(100.0)})
        >>> table["days"] = table["days"].where(dead)
        >>> model = MissDiff(steps=2, refine=0, structural_missing="keep", random_state=0).fit(table)
        >>> model.structural_.values.tolist()
        [['days', 'dead', ['no'], 66, 1.0]]
        >>> rows = model.sample(50)
        >>> bool((rows["days"].isna() == (rows["dead"] == "no")).all())
        True
        """
        if not hasattr(self, "codec_"):
            raise AttributeError("structural_ is known after fit")
        return self.codec_.structural.frame()

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted

    def _check_fitted(self) -> None:
        if not self.fitted:
            raise NotFittedError("this model is not fitted: call fit first")

    def _check_draws_holes(self, given: object) -> None:
        """Raise ValueError where the model cannot draw rows with holes."""
        rule = ""
        if given is not None:
            rule = "goes without given, whose values may tell which cells are missing: draw more rows, and choose"
        elif not isinstance(self.config_, Config):
            rule = "goes without the preset 'paper', which draws complete rows alone"
        elif not self._method.draws_holes and self._has_incomplete_rows():
            rule = "needs a network that was not trained: fit was interrupted, or incomplete.step_share is 0"
        if rule:
            raise argument_error("missing", rule, True)

    def _known(
        self, num_rows: int | None, given: Mapping[Any, object] | pd.DataFrame | None
    ) -> tuple[pd.DataFrame, TableCells]:
        """The known part of rows to be drawn, and the cells of its learnt columns."""
        # Without an order of their own, because the result has the learnt order.
        frame = without_order(to_pandas(given_frame(num_rows, given, self.columns_))[0])
        frame = read_given_dates(frame, self.codec_.schema, self.missing_values)
        return frame, self.codec_.read(self.asides_.learnt(frame), partial=True)

    def _meeting(
        self,
        conditions: Sequence[Condition],
        num_rows: int | None,
        given: Mapping[Any, object],
        seed: int,
        first_row: int,
    ) -> pd.DataFrame:
        """The known cells of rows that meet conditions: single values, and cells of the columns with conditions."""
        fixed = given_frame(num_rows, given, self.columns_)
        of_rows = derive(seed, "conditions")

        def draw(start: int, number: int) -> pd.DataFrame:
            # Nobody asked for these rows: nothing is told of them.
            return self._complete(self._known(number, given)[1], of_rows, start, quiet=True)

        cells = cells_that_meet(conditions, draw, row_uniform(of_rows, first_row, len(fixed)))
        return pd.concat([fixed, cells], axis=1)

    def _complete(self, known: TableCells, seed: int, first_row: int, *, quiet: bool = False) -> pd.DataFrame:
        """Rows of the learnt columns with these known cells, complete but for structural holes."""
        encoded = self.codec_.encode(known).to(self.device_)
        drawn = self._drawn(encoded, known, seed, first_row, quiet=quiet)
        structural = self._structural(drawn, known)
        if known.columns:
            drawn = in_learnt_dtypes(self.codec_.fill(known, drawn), self.codec_.schema)
        else:
            drawn = self.codec_.written(drawn)
        return self.codec_.structural.blank(drawn, structural)

    def _incomplete(self, known: TableCells, seed: int, first_row: int) -> pd.DataFrame:
        """Rows with holes; nothing is known of them."""
        alone = [name for name in self._holes.ever if self.codec_.schema[name].kind == "constant"]
        if alone:
            problem = f"the holes of {alone}, which have one value each, do not depend on the values of other columns"
            remedy = Do("to keep what they tell, give the blank a value of its own, such as 'no', before fit")
            warn(DataWarning("holes", problem, columns=alone, remedy=remedy, joint="; "))
        holes = self._holes.draw(row_uniform(derive(seed, "holes"), first_row, len(known)))
        # Without that network no row of the table has both cells and holes; see `_has_incomplete_rows`.
        hidden = self.codec_.missing(holes) if self._method.draws_holes else None
        encoded = self.codec_.encode(known).to(self.device_)
        rows = self.codec_.written(self._drawn(encoded, known, seed, first_row, holes, hidden))
        return self._holes.blank(rows, holes)

    def _has_incomplete_rows(self) -> bool:
        """Whether a row of the table had both cells and holes, columns of one value aside."""
        missing = self.codec_.missing(self._holes.distinct())
        return bool((missing.any(1) & ~missing.all(1)).any())

    def _encoded(
        self, X: pd.DataFrame, seed: int, backend: Backend, config: AnyConfig
    ) -> tuple[Asides, Codec, EncodedTable, Holes, Rules]:
        """Learn columns, holes and rules, and encode the rows; the cells, which training does not need, are freed."""
        cells, asides = read_treated(self, X)
        asides.check_any_learnt()
        asides.warn(treatments(self))
        cells = cells.without(asides.found)
        warn_of_limits(cells, treatments(self))
        codec = Codec.fit(
            cells,
            ops=backend,
            max_categories=most_categories(self),
            relations=isinstance(config, Config) and config.relations.enabled,
            structural=isinstance(config, Config),
            verbose=self.verbose,
        )
        if self.structural_missing is None:
            codec.structural.warn()
        aside = {name: one.kind for name, one in asides.found.items()}
        rules = learn_rules(self.rules, codec.schema, codec.relations.coders, cells, aside)
        warn_of_broken(rules)
        table = codec.encode(cells, seed=derive(seed, "encode"), verbose=self.verbose)
        return asides, codec, table, Holes.learn(cells, derive(seed, "holes")), rules

    def _drawn(
        self,
        encoded: EncodedTable,
        known: TableCells,
        seed: int,
        first_row: int = 0,
        holes: pd.DataFrame | None = None,
        hidden: torch.Tensor | None = None,
        *,
        recorded: bool = False,
        quiet: bool = False,
        **how: Any,
    ) -> pd.DataFrame:
        """Drawn rows in which the codec's relations and the rules hold; ``how`` are arguments of `Method.draw`."""

        def draw(seed: int, rows: slice) -> pd.DataFrame:
            first, own = first_row + rows.start, None if hidden is None else hidden[rows]
            part = encoded.rows(rows)
            return self._method.draw(part, seed, first_row=first, hidden=own, verbose=self.verbose, **how)

        return keep_drawn(
            self._rules,
            self.codec_,
            draw,
            known,
            seed,
            first_row=first_row,
            holes=holes,
            recorded=recorded,
            structural=keeps_structural(self),
            quiet=quiet,
        )

    def _structural(self, drawn: pd.DataFrame, known: TableCells) -> dict[str | int, np.ndarray]:
        """Of the columns with structural holes, the cells of drawn rows that are to stay such: bool ``[N]`` each."""
        return self.codec_.structural.missing(drawn, known) if keeps_structural(self) else {}

    def _filled(self, X: pd.DataFrame, cells: TableCells, drawn: pd.DataFrame) -> pd.DataFrame:
        """X with its missing cells from complete rows in which the relations hold."""
        structural = {name: holes for name, holes in self._structural(drawn, cells).items() if holes.any()}
        filled = self.codec_.fill(cells, drawn, verbose=self.verbose)
        return self.asides_.carry(self.codec_.structural.blank(filled, structural), X)

    def _learn_columns(
        self, asides: Asides, codec: Codec, holes: Holes, rules: Rules, kind: Kind, *, is_array: bool
    ) -> None:
        self.asides_, self.codec_, self._holes, self._rules, self._kind = asides, codec, holes, rules, kind
        self.columns_, self.n_features_in_ = list(asides.columns), len(asides.columns)
        self._fitted_on_array = is_array
        vars(self).pop("feature_names_in_", None)
        if not is_array and all(isinstance(name, str) for name in self.columns_):
            self.feature_names_in_ = np.array(self.columns_, dtype=object)

    def _read(self, X: pd.DataFrame) -> TableCells:
        """The cells of the learnt columns."""
        return self.codec_.read(self.asides_.learnt(X), verbose=self.verbose)

    def _frame(self, X: Frame | np.ndarray) -> tuple[pd.DataFrame, Kind]:
        """X as a frame of pandas, and its kind."""
        return to_pandas(self._named(X))

    def _named(self, X: Frame | np.ndarray) -> Frame | np.ndarray:
        """X, as a frame if it is an array; a model of a frame takes none, whose columns have no names to be checked."""
        return as_frame(X, self.columns_) if self._fitted_on_array else X


def _history(stored: Mapping[str, Any]) -> pd.DataFrame:
    """`MissDiff.history_` from a model file; NaN for the seconds, which only files of earlier versions hold."""
    frame = pd.DataFrame(stored)
    if "seconds" not in frame:
        frame.insert(2, "seconds", np.nan)
    return frame


def _without(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The frame with all cells of one column missing."""
    other = frame.drop(columns=[column], errors="ignore")
    return pd.concat([other, pd.Series([None] * len(frame), index=frame.index, name=column, dtype=object)], axis=1)
