"""STaSy: score-based tabular data synthesis on a completed table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import torch

from missdiff_fast._checks import check_count, check_positive
from missdiff_fast._engine.device import plain_settings, resolve_device
from missdiff_fast._engine.history import History
from missdiff_fast._engine.random import check_seed, derive, seeded
from missdiff_fast._estimator import BaseEstimator, NotFittedError
from missdiff_fast.baselines._encoding import Encoder
from missdiff_fast.baselines.delete import complete_rows
from missdiff_fast.baselines.imputers import MeanModeImputer
from missdiff_fast.baselines.stasy.network import LAYER_WIDTHS, ScoreNetwork
from missdiff_fast.baselines.stasy.sde import VESDE
from missdiff_fast.baselines.stasy.training import StasyPhase, train_phase, unlikely
from missdiff_fast.table import read_frame
from missdiff_fast.table.schema import as_names

_TILE = 4096  # rows drawn at a time


class STaSy(BaseEstimator):
    """Score-based tabular data synthesis (Kim, Lee and Park, 2023) on complete rows.

    A variance-exploding SDE with noise levels from 0.01 to 10 over numbers in [0, 1] and one-hot categories; a network
    of ConcatSquash layers; self-paced learning; then `finetune_epochs` epochs on the rows whose likelihood under the
    model is at most the median. Rows are drawn along the probability flow.

    The model is that of the last step. (The released code keeps the epoch whose samples train the best classifiers
    on the test rows, which makes the choice by test data, and picks the rows to fine-tune anew after every epoch.)

    Parameters
    ----------
    complete : {"delete", "mean"}
        Whether rows with a hole are deleted, or holes filled with means and most frequent categories.
    epochs, finetune_epochs : int
        Of self-paced training (MissDiff's paper gives it 250 or 1,000) and of fine-tuning; 0 for no fine-tuning.
    batch_size : int
        Rows a step.
    learning_rate, finetune_learning_rate : float
        Of Adam.
    warmup : int
        Steps over which the learning rate rises to its value.
    ema : float
        Decay of the weights' moving average.
    alpha0, beta0 : float
        The shares of easy rows and of rows in use at the start of self-paced learning.
    hidden : sequence of int
        Widths of the layers.
    likelihood_probes : int
        Random signs for the divergence of each row (the released code takes 50).
    random_state : int, optional
        Seed of everything random; None draws one from the system's entropy at every call.
    device : str
        "auto", "cpu" or "cuda".
    verbose : bool
        Progress bars, where stderr is a terminal.
    missing_values : sequence
        Values that stand for a missing cell beside NaN, None, NaT and pd.NA.
    max_categories : int
        A column with more categories is refused.

    Attributes
    ----------
    history_ : DataFrame
        step, loss and seconds, one row for every epoch of both phases.
    columns_ : list
        The names of the columns.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1.0, 2.0, 3.0, None] * 8, "y": ["a", "a", "b", "b"] * 8})
    >>> model = STaSy("mean", epochs=1, finetune_epochs=1, hidden=(8, 8), random_state=0, verbose=False).fit(table)
    >>> model.sample(3).shape
    (3, 2)
    """

    def __init__(
        self,
        complete: Literal["delete", "mean"] = "delete",
        epochs: int = 250,
        finetune_epochs: int = 50,
        batch_size: int = 64,
        learning_rate: float = 2e-3,
        finetune_learning_rate: float = 2e-7,
        warmup: int = 5000,
        ema: float = 0.9999,
        alpha0: float = 0.3,
        beta0: float = 0.95,
        hidden: Sequence[int] = LAYER_WIDTHS,
        likelihood_probes: int = 10,
        random_state: int | None = None,
        device: str = "auto",
        verbose: bool = True,
        missing_values: Sequence[object] = (),
        max_categories: int = 100,
    ) -> None:
        self.complete = complete
        self.epochs = epochs
        self.finetune_epochs = finetune_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.finetune_learning_rate = finetune_learning_rate
        self.warmup = warmup
        self.ema = ema
        self.alpha0 = alpha0
        self.beta0 = beta0
        self.hidden = hidden
        self.likelihood_probes = likelihood_probes
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.missing_values = missing_values
        self.max_categories = max_categories

    @plain_settings()
    def fit(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None = None) -> STaSy:
        """Learn the distribution of the completed rows of X.

        Parameters
        ----------
        X : DataFrame
            N rows, with or without holes.
        categorical_columns : sequence of str, optional
            Numeric columns whose values are names, not amounts.

        Raises
        ------
        NoCompleteRowError
            A ValueError: with ``complete="delete"``, no row is complete.
        ValueError, TypeError
            The settings or the table cannot be used.
        FloatingPointError
            Training diverged.
        """
        self._check()
        categorical_columns = as_names(categorical_columns)
        seed, device = check_seed(self.random_state), resolve_device(self.device)
        # Learnt from all observed cells, so that ranges and categories do not depend on which rows are complete.
        cells = read_frame(X, categorical_columns=categorical_columns, missing_values=self.missing_values)
        encoder = Encoder.fit(cells, self.max_categories)
        if self.complete == "delete":
            rows = encoder.encode(cells).rows(complete_rows(cells))
        else:
            imputer = MeanModeImputer(missing_values=self.missing_values, max_categories=self.max_categories)
            rows = encoder.encode(encoder.codec.read(imputer.fit_impute_cells(cells)))
        x = torch.from_numpy(encoder.dense(rows)).float().to(device)
        with seeded(derive(seed, "weights")):
            network = ScoreNetwork(encoder.layout.width, self.hidden).to(device)
        sde, history, quiet = VESDE(), History(), not self.verbose
        first = StasyPhase(
            "STaSy",
            self.epochs,
            self.batch_size,
            self.learning_rate,
            self.warmup,
            self.ema,
            (self.alpha0, self.beta0),
        )
        train_phase(network, sde, x, first, seed, history, quiet)
        if self.finetune_epochs:
            second = StasyPhase("fine-tuning", self.finetune_epochs, self.batch_size, self.finetune_learning_rate)
            train_phase(
                network,
                sde,
                unlikely(network, sde, x, self.likelihood_probes, seed, quiet),
                second,
                seed,
                history,
                quiet,
            )
        self._encoder, self._network, self._sde = encoder, network, sde
        self.history_ = pd.DataFrame({"step": history.step, "loss": history.loss, "seconds": history.seconds})
        self.columns_ = encoder.codec.columns
        return self

    @plain_settings()
    def sample(self, num_rows: int, random_state: int | None = None) -> pd.DataFrame:
        """Draw complete rows.

        Parameters
        ----------
        num_rows : int
            How many.
        random_state : int, optional
            Seed; None takes the model's ``random_state``.

        Returns
        -------
        DataFrame
            With the columns and dtypes of the table of fit; numbers within the observed range.

        Raises
        ------
        ValueError
            Nothing was fitted, or ``num_rows`` is negative.
        """
        if not hasattr(self, "_network"):
            raise NotFittedError("this model is not fitted: call fit first")
        check_count("num_rows", num_rows, least=0)
        seed = check_seed(self.random_state if random_state is None else random_state)
        device = next(self._network.parameters()).device
        draws = torch.Generator(device).manual_seed(derive(seed, "sample"))
        width = self._encoder.layout.width
        rows = torch.empty((num_rows, width))
        for start in range(0, num_rows, _TILE):
            noise = torch.randn((min(_TILE, num_rows - start), width), generator=draws, device=device)
            rows[start : start + _TILE] = self._sde.sample(self._network, noise).cpu()
        return self._encoder.codec.written(self._encoder.decode(self._encoder.cells(rows.numpy())))

    def _check(self) -> None:
        if self.complete not in ("delete", "mean"):
            raise ValueError(f"complete must be 'delete' or 'mean', got {self.complete!r}")
        for name in ("epochs", "batch_size", "likelihood_probes"):
            check_count(name, getattr(self, name), least=1)
        if not isinstance(self.hidden, Sequence):
            raise TypeError(f"hidden must be a sequence of widths, such as (256, 512), got {self.hidden!r}")
        for width in self.hidden:
            check_count("each width of hidden", width, least=1)
        for name in ("finetune_epochs", "warmup"):
            check_count(name, getattr(self, name), least=0)
        for name in ("learning_rate", "finetune_learning_rate"):
            check_positive(name, getattr(self, name))
        for name in ("ema", "alpha0", "beta0"):
            if check_positive(name, getattr(self, name)) > 1:
                raise ValueError(f"{name} must be at most 1, got {getattr(self, name)}")
        if self.alpha0 > self.beta0:
            raise ValueError(f"alpha0 must be at most beta0, got {self.alpha0} and {self.beta0}")
