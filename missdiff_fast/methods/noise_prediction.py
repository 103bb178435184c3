"""The paper's method: a network predicts the noise of zero-filled rows, and its loss is over observed cells alone."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import torch
from torch import Tensor

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.random import derive, make_keys, seeded
from missdiff_fast._engine.sampling import most_probable
from missdiff_fast._engine.tiling import tiles
from missdiff_fast._engine.training import batches
from missdiff_fast.config import PaperConfig
from missdiff_fast.diffusion.likelihood import evidence_bound
from missdiff_fast.methods.base import Method, empty_codes, part
from missdiff_fast.methods.noise_model import NoiseModel
from missdiff_fast.methods.noise_sampling import chains, chains_bar, encode_clean
from missdiff_fast.methods.noise_training import NoiseStepper
from missdiff_fast.table import Codec, EncodedTable
from missdiff_fast.table.min_max import MinMax, check_near


class NoisePrediction(Method):
    """MissDiff as printed: masked denoising score matching (Algorithm 1) and ancestral sampling (Algorithm 2).

    Known cells of a row are held by replacement: at every level they are noised independently and written over those of
    the chain. An imputation is the median of many chains, as in the released code. (The released code noises the known
    cells step by step along one path: at each level the distribution is the same, jointly over levels it is not.)

    With the compiled ops on a GPU, the network computes in bfloat16 where torch's autocast allows it, in training and
    in sampling (weights and rows stay float32), and training steps are replayed as a CUDA graph.

    Examples
    --------
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> from missdiff_fast.config import override
    >>> frame = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 4, "y": ["a", None, "b", "b"] * 4})
    >>> from missdiff_fast.table import read_frame
    >>> cells = read_frame(frame)
    >>> codec = Codec.fit(cells, ops=ReferenceBackend())
    >>> config = override(PaperConfig(), {"training.steps": 2, "diffusion.steps": 3, "network.channels": 8})
    >>> method = NoisePrediction(codec, config, torch.device("cpu"), ReferenceBackend())
    >>> table = codec.encode(cells, seed=0)
    >>> method.fit(table, 0, History(), verbose=False)
    >>> method.draw(table, seed=0).isna().sum().to_dict()
    {'x': 0, 'y': 0}
    """

    def __init__(self, codec: Codec, config: PaperConfig, device: torch.device, backend: Backend) -> None:
        super().__init__(codec, device, backend)
        self.config = config

    @property
    def fitted(self) -> bool:
        """As `Method.fitted`."""
        return hasattr(self, "_model")

    def fit(self, table: EncodedTable, seed: int, history: History, *, verbose: bool) -> None:
        """Algorithm 1."""
        min_max = MinMax.fit(table, self.codec.scales, self.config.missing)
        self._worst_missing = 1 - table.observed().double().mean(0).min().cpu()
        settings = self.config.training
        steps, batch_size = settings.resolve(len(table))
        order = batches(len(table), batch_size, torch.Generator().manual_seed(derive(seed, "batches")))
        with seeded(derive(seed, "weights")):  # and dropout
            self._model = NoiseModel(self.config, min_max, self.device)
            self._model.network.train()
            try:
                stepper = NoiseStepper(self._model, table, settings, self.backend, replay=self._replays)
                with Progress(history, "fit", steps, verbose) as progress:
                    stepper.run(order, derive(seed, "levels"), derive(seed, "noise"), steps, batch_size, progress)
            finally:
                self._model.network.eval()

    def draw(
        self,
        known: EncodedTable,
        seed: int,
        *,
        first_row: int = 0,
        conditional: bool = False,
        refit: int | None = None,
        hidden: Tensor | None = None,
        verbose: bool = False,
        desc: str = "sample",
    ) -> pd.DataFrame:
        """Algorithm 2, in T steps."""
        if hidden is not None:
            raise NotImplementedError("the paper's sampler draws complete rows alone")
        drawn = self._chains(known, [seed], verbose, desc, first_row)
        return self._rows(known, ((a, b, chain[0]) for a, b, chain in drawn))

    def impute(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> pd.DataFrame:
        """The median of ``draws`` chains for every encoded cell; of a group's medians the greatest is its category."""
        drawn = self._chains(table, self._draw_seeds(seed), verbose, "impute")
        return self._rows(table, ((a, b, chain.median(0).values) for a, b, chain in drawn))

    def predict_proba(self, table: EncodedTable, group: int, seed: int, *, verbose: bool = False) -> Tensor:
        """As `Method.predict_proba`: the shares of ``draws`` chains that end in each category."""
        count, first = table.layout.cardinalities[group], int(self._model.min_max.layout.offsets()[group])
        probabilities = torch.empty((len(table), count))
        for a, b, chain in self._chains(table, self._draw_seeds(seed), verbose, "impute"):
            winners = chain[:, :, first : first + count].argmax(2)
            probabilities[a:b] = torch.nn.functional.one_hot(winners, count).float().mean(0)
        return probabilities

    @torch.inference_mode()
    def nll_bound(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> Tensor:
        """The right-hand side of Theorem 3.2 for each row's encoded cells, with rho_max of the training table."""
        self._check_near(table)
        model, size = self._model, self._model.tile.rows
        bounds, T = torch.empty(len(table), dtype=torch.float64), len(model.process)
        keys, levels = make_keys(derive(seed, "bound"), T, self.device), model.levels
        with chains_bar(model, len(table), 1, verbose, "score") as bar:
            for start, stop, piece in tiles(table, size):
                rows, observed, x0 = encode_clean(model, piece, start, self.backend)
                errors = torch.empty((size, T), dtype=torch.float64, device=self.device)
                for t in range(T):
                    eps = self.backend.normal(rows, x0.shape[1], keys[t])
                    error = eps - model.predict(model.alpha[t] * x0 + model.sigma[t] * eps, levels[t])
                    errors[:, t] = torch.where(observed, error.double() ** 2, 0.0).sum(1)
                    bar.update()
                factor = 1 / (1 - float(self._worst_missing))
                bound = evidence_bound(model.process, errors, x0.double(), observed, factor)
                bounds[start:stop] = bound[: stop - start].cpu()
        return bounds

    def weights(self) -> dict[str, Tensor]:
        """As `Method.weights`."""
        network = {f"network.{name}": tensor for name, tensor in self._model.network.state_dict().items()}
        encoding = {"encoding.low": self._model.min_max.low, "encoding.span": self._model.min_max.span}
        return network | encoding | {"encoding.worst_missing": self._worst_missing}

    def load(self, weights: dict[str, Tensor]) -> None:
        """As `Method.load`."""
        low, span = weights["encoding.low"].to(self.device), weights["encoding.span"].to(self.device)
        min_max = MinMax.make(low, span, self.codec.scales, self.codec.layout, self.config.missing)
        self._worst_missing = weights["encoding.worst_missing"]
        with seeded(0):  # a network draws its first weights, which are replaced
            model = NoiseModel(self.config, min_max, self.device)
        model.network.load_state_dict(part(weights, "network"))
        model.network.eval()
        self._model = model

    @property
    def _replays(self) -> bool:
        """Whether training steps are replayed as a CUDA graph and the network computes in bfloat16."""
        return self.device.type == "cuda" and self.backend.capturable

    def _rows(self, table: EncodedTable, pieces: Iterator[tuple[int, int, Tensor]]) -> pd.DataFrame:
        """Decode encoded rows, ``[stop - start, D]`` each."""
        min_max = self._model.min_max
        values, codes = torch.empty((len(table), table.layout.num_continuous)), empty_codes(table)
        offsets = min_max.layout.offsets(self.device) - min_max.layout.num_continuous
        for start, stop, x in pieces:
            values[start:stop] = min_max.values(x)
            codes[start:stop] = most_probable(min_max.categories(x), offsets, self.backend)
        return self.codec.decode_means(values, codes)

    def _draw_seeds(self, seed: int) -> list[int]:
        return [derive(seed, "draws", m) for m in range(self.config.draws)]

    def _chains(
        self, known: EncodedTable, seeds: list[int], verbose: bool, desc: str, first_row: int = 0
    ) -> Iterator[tuple[int, int, Tensor]]:
        """As `missdiff_fast.methods.noise_sampling.chains`, after a check that the numbers are in reach."""
        self._check_near(known)
        yield from chains(
            self._model,
            known,
            seeds,
            self.backend,
            first_row=first_row,
            autocast=self._replays,
            verbose=verbose,
            desc=desc,
        )

    def _check_near(self, table: EncodedTable) -> None:
        check_near(self._model.min_max.encode(table).continuous, self.codec.schema.continuous)
