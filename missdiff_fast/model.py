"""The estimator: fit on a table with holes, sample complete rows, impute."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from missdiff_fast import checkpoint
from missdiff_fast._backend import plain_settings, resolve_backend, resolve_device
from missdiff_fast._seeding import check_seed, derive
from missdiff_fast._validation import check_count, check_positive, given_frame, in_learnt_dtypes, plain_parameters
from missdiff_fast.config import Config, SolverConfig
from missdiff_fast.config import preset as find_preset
from missdiff_fast.imputation import one_pass
from missdiff_fast.networks import Denoiser
from missdiff_fast.refinement import Networks, run_phases
from missdiff_fast.sampling import draw, most_probable
from missdiff_fast.table import Codec, EncodedTable
from missdiff_fast.table.schema import check_frame
from missdiff_fast.training import History

_INIT_LOCK = threading.Lock()  # initial weights come from torch's one generator, which other threads may be seeding


class MissDiff:
    """A diffusion model of a table with missing cells.

    Parameters
    ----------
    preset : str
        Named settings; "default" is the one of this version.
    steps, batch_size, learning_rate, width, blocks : optional
        Training steps before refining, rows a step, peak learning rate, width and number of the network's residual
        blocks. None leaves the preset's value; steps and batch size then depend on the number of rows.
    random_state : int, optional
        Seed of everything random. None draws one from the system's entropy at every call.
    device : str
        "auto", "cpu" or "cuda".
    backend : str
        "native" (compiled ops), "reference" (plain PyTorch) or "auto".
    refine : bool
        Whether to fill the holes with conditional draws after training and train on, in rounds. Without it a table with
        many or systematic holes is modelled badly.
    verbose : bool
        Progress bars, where stderr is a terminal.
    missing_values : sequence
        Values that stand for a missing cell beside NaN, None, NaT and pd.NA, such as ``["?"]``.
    max_categories : int
        A column with more categories is refused.

    Attributes
    ----------
    history_ : DataFrame
        step, loss and seconds, one row for every 50 steps.
    columns_ : list
        The names of the columns.
    seed_ : int
        The seed that fit used.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from missdiff_fast import MissDiff
    >>> table = pd.DataFrame({"age": [31, 52, np.nan, 47] * 8, "smoker": ["no", None, "yes", "no"] * 8})
    >>> model = MissDiff(steps=5, random_state=0, verbose=False).fit(table)
    >>> model.sample(3).shape
    (3, 2)
    >>> int(model.impute(table).isna().sum().sum())
    0
    """

    def __init__(
        self,
        preset: str = "default",
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        width: int | None = None,
        blocks: int | None = None,
        random_state: int | None = None,
        device: str = "auto",
        backend: str = "auto",
        refine: bool = True,
        verbose: bool = True,
        missing_values: Sequence[object] = (),
        max_categories: int = 100,
    ) -> None:
        self.preset = preset
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.width = width
        self.blocks = blocks
        self.random_state = random_state
        self.device = device
        self.backend = backend
        self.refine = refine
        self.verbose = verbose
        self.missing_values = missing_values
        self.max_categories = max_categories

    @plain_settings()
    def fit(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None = None) -> MissDiff:
        """Learn the table's distribution from its observed cells.

        Parameters
        ----------
        X : DataFrame
            N rows; missing cells are NaN, None, NaT, pd.NA or one of ``missing_values``.
        categorical_columns : sequence of str, optional
            Numeric columns whose values are names, not amounts. Strings, booleans and categories are always
            categorical.

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
        """
        config = self._configure()
        seed = check_seed(self.random_state)
        device = resolve_device(self.device)
        backend = resolve_backend(self.backend, device)
        codec = Codec.fit(
            X,
            categorical_columns=_listed(categorical_columns),
            missing_values=self.missing_values,
            max_categories=self.max_categories,
            verbose=self.verbose,
        )
        table = codec.encode(X, seed=derive(seed, "encode"), verbose=self.verbose).to(device)
        observed = table.observed()
        missing = 1 - float(observed.float().mean())
        table = table.rows(observed.any(1).nonzero()[:, 0])  # a row without any observed cell teaches nothing
        with _INIT_LOCK, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(derive(seed, "weights"))
            network = Denoiser(codec.layout, **vars(config.network)).to(device)
        self.config_, self.seed_, self.device_, self._backend = config, seed, device, backend
        self.codec_, self.columns_ = codec, codec.columns
        self._networks, history = Networks(network, network), History()
        rounds = config.refine.rounds_for(missing) if self.refine else 0
        try:
            run_phases(self._networks, table, config, backend, seed, history, rounds=rounds, verbose=self.verbose)
        except FloatingPointError:
            del self._networks  # weights that are not finite are no model
            raise
        finally:
            self.history_ = pd.DataFrame({"step": history.step, "loss": history.loss, "seconds": history.seconds})
        return self

    @plain_settings()
    def sample(
        self,
        num_rows: int | None = None,
        given: Mapping[str, object] | pd.DataFrame | None = None,
        random_state: int | None = None,
    ) -> pd.DataFrame:
        """Draw complete synthetic rows.

        Parameters
        ----------
        num_rows : int, optional
            How many. May be left out where ``given`` is a DataFrame, whose rows are then completed one for one.
        given : mapping or DataFrame, optional
            Known values: a mapping from column to value, the same for all rows, or a table of partly known rows (absent
            columns and missing cells are drawn). The draw is conditional on them, not a selection among many.
        random_state : int, optional
            Seed; None takes the model's ``random_state``. Row i depends on the seed and i alone, so that a longer
            sample begins with the shorter one.

        Returns
        -------
        DataFrame
            ``num_rows`` rows with the columns, dtypes, categories and range of the training table.

        Raises
        ------
        ValueError, TypeError
            Bad number of rows; unknown column or value in ``given``.
        """
        self._check_fitted()
        known = given_frame(num_rows, given, self.columns_)
        self.codec_.check_constants(known)
        seed = derive(check_seed(self.random_state if random_state is None else random_state), "sample")
        encoded = self.codec_.encode(known, partial=True).to(self.device_)
        drawn = self._draw(encoded, seed, self.config_.solver, "sample")
        if given is None:
            return drawn
        return in_learnt_dtypes(self.codec_.fill(known.reindex(columns=self.columns_), drawn), drawn)

    @plain_settings()
    def impute(self, X: pd.DataFrame) -> pd.DataFrame:
        """Fill the missing cells with conditional means (numbers, times) and most probable categories.

        Parameters
        ----------
        X : DataFrame
            Rows with the columns that fit saw.

        Returns
        -------
        DataFrame
            X with its missing cells filled; observed cells are the same bit for bit.

        Raises
        ------
        ValueError, TypeError
            X does not have the columns, dtypes and categories that fit saw.
        """
        self._check_fitted()
        table = self.codec_.encode(X, verbose=self.verbose).to(self.device_)
        means, codes = torch.empty((len(table), table.layout.num_continuous)), _empty_codes(table)
        for a, b, logits, mean in one_pass(self._networks.imputer, table, self._backend, verbose=self.verbose):
            means[a:b], codes[a:b] = mean, most_probable(logits, table.layout, self._backend)
        return self.codec_.fill(X, self.codec_.decode_means(means, codes), verbose=self.verbose)

    @plain_settings()
    def impute_draws(self, X: pd.DataFrame, num_draws: int = 5, random_state: int | None = None) -> list[pd.DataFrame]:
        """Fill the missing cells with draws from their distribution given the observed cells of their row.

        Parameters
        ----------
        X : DataFrame
            Rows with the columns that fit saw.
        num_draws : int
            How many complete tables.
        random_state : int, optional
            Seed; None takes the model's ``random_state``.

        Returns
        -------
        list of DataFrame
            ``num_draws`` complete tables. Their spread tells the uncertainty of each filled cell.

        Raises
        ------
        ValueError, TypeError
            As in `impute`, and for a bad ``num_draws``.
        """
        self._check_fitted()
        check_count("num_draws", num_draws, least=1)
        seed = check_seed(self.random_state if random_state is None else random_state)
        solver = replace(self.config_.solver, steps=self.config_.refine.solver_steps)
        known = self.codec_.encode(X, verbose=self.verbose).to(self.device_)
        seeds = [derive(seed, "draws", m) for m in range(num_draws)]
        drawn = (self._draw(known, s, solver, f"draw {m}/{num_draws}") for m, s in enumerate(seeds, 1))
        return [self.codec_.fill(X, rows, verbose=self.verbose) for rows in drawn]

    @plain_settings()
    def predict_proba(self, X: pd.DataFrame, column: str) -> pd.DataFrame:
        """The probability of each category of one column given the other cells of the row.

        Parameters
        ----------
        X : DataFrame
            Rows with the columns that fit saw; what ``column`` holds is not looked at and may be absent.
        column : str
            A categorical column.

        Returns
        -------
        DataFrame
            ``[N, V]``, a column for each category, indexed as X; rows sum to 1.

        Raises
        ------
        ValueError
            ``column`` is not categorical.
        """
        self._check_fitted()
        check_frame(X)
        categories = self.codec_.category_values(column)
        group = self.codec_.group(column)
        table = self.codec_.encode(_without(X, column)).to(self.device_)
        bounds = (table.offsets - table.layout.num_continuous).tolist()[group : group + 2]
        chance = torch.empty((len(table), len(categories)))
        for a, b, logits, _ in one_pass(self._networks.imputer, table, self._backend, verbose=self.verbose):
            chance[a:b] = torch.softmax(logits[:, slice(*bounds)], 1)
        return pd.DataFrame(chance.numpy(), index=X.index, columns=pd.Index(categories, name=column))

    def save(self, path: str | Path) -> None:
        """Write the model to one file (safetensors with a JSON header; no pickle).

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is whole.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        self._check_fitted()
        meta, tensors = self.codec_.state()
        tensors = {f"codec.{name}": tensor for name, tensor in tensors.items()}
        tensors |= {f"generator.{name}": tensor for name, tensor in self._networks.generator.state_dict().items()}
        if self._networks.imputer is not self._networks.generator:
            tensors |= {f"imputer.{name}": tensor for name, tensor in self._networks.imputer.state_dict().items()}
        checkpoint.write(
            path,
            {
                "parameters": plain_parameters(self.get_params()),
                "config": self.config_.to_dict(),
                "seed": self.seed_,
                "codec": meta,
                "history": {name: column.tolist() for name, column in self.history_.items()},
            },
            tensors,
        )

    @classmethod
    @plain_settings()
    def load(cls, path: str | Path, device: str = "auto", backend: str = "auto") -> MissDiff:
        """Read a model that `save` wrote, whatever device it was fitted on.

        Parameters
        ----------
        path : str or Path
            The file.
        device, backend : str
            Where and how it is to run.

        Raises
        ------
        FileNotFoundError, ValueError
            No such file; a truncated or foreign one.
        """
        meta, tensors = checkpoint.read(path)
        parts: dict[str, dict[str, Tensor]] = {"codec": {}, "generator": {}, "imputer": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = tensor
        try:
            settings = {**meta["parameters"], "missing_values": tuple(meta["parameters"]["missing_values"])}
            model = cls(**{**settings, "device": device, "backend": backend})
            model.config_, model.seed_ = Config.from_dict(meta["config"]), meta["seed"]
            model.codec_ = Codec.from_state(meta["codec"], parts["codec"])
            model.history_ = pd.DataFrame(meta["history"])
            model.device_ = resolve_device(device)
            model._backend = resolve_backend(backend, model.device_)
            generator = model._network(parts["generator"])
            imputer = model._network(parts["imputer"]) if parts["imputer"] else generator
            model._networks = Networks(generator, imputer)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"{path} is no usable model: its description and its tensors do not fit ({error})"
            ) from error
        model.columns_ = model.codec_.columns
        return model

    def get_params(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, which cannot hold the module of the ops."""
        return {name: value for name, value in vars(self).items() if name != "_backend"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if hasattr(self, "device_"):
            self._backend = resolve_backend(self.backend, self.device_)

    def _network(self, weights: dict[str, Tensor]) -> Denoiser:
        network = Denoiser(self.codec_.layout, **vars(self.config_.network))
        network.load_state_dict(weights)
        return network.to(self.device_).eval()

    def _configure(self) -> Config:
        """The preset's settings with the user's in their place."""
        config = find_preset(self.preset)
        training, network = config.training, config.network
        if self.steps is not None:
            training = replace(training, steps=check_count("steps", self.steps, least=1))
        if self.batch_size is not None:
            training = replace(training, batch_size=check_count("batch_size", self.batch_size, least=1))
        if self.learning_rate is not None:
            training = replace(training, learning_rate=check_positive("learning_rate", self.learning_rate))
        if self.width is not None:
            network = replace(network, width=check_count("width", self.width, least=1))
        if self.blocks is not None:
            network = replace(network, blocks=check_count("blocks", self.blocks, least=0))
        check_count("max_categories", self.max_categories, least=2)
        return replace(config, training=training, network=network)

    def _draw(self, known: EncodedTable, seed: int, solver: SolverConfig, desc: str) -> pd.DataFrame:
        """Complete rows, drawn given the known cells."""
        boundaries, starts = self.codec_.boundaries.to(self.device_), self.codec_.starts.to(self.device_)
        places = torch.empty((len(known), known.layout.num_continuous), dtype=torch.int32)
        codes = _empty_codes(known)
        for start, stop, x in draw(
            self._networks.generator, known, solver, self._backend, seed, verbose=self.verbose, desc=desc
        ):
            places[start:stop], codes[start:stop] = self._backend.decode(x, known.offsets, boundaries, starts)
        return self.codec_.decode(places, codes)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_networks"):
            raise ValueError("this model is not fitted: call fit first")


def _empty_codes(table: EncodedTable) -> Tensor:
    """Room for a code in every categorical cell: int16 ``[N, K]``."""
    return torch.empty((len(table), table.layout.num_categorical), dtype=torch.int16)


def _without(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The frame with nothing known of a column."""
    other = frame.drop(columns=[column], errors="ignore")
    return pd.concat([other, pd.Series([None] * len(frame), index=frame.index, name=column, dtype=object)], axis=1)


def _listed(columns: Sequence[str] | None) -> Sequence[str] | None:
    """Names as a list, such as those of an Index or an array; strings and None as they are."""
    return columns if columns is None or isinstance(columns, str) else list(columns)
