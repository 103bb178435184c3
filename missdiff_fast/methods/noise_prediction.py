"""The paper's method: a network predicts the noise of zero-filled rows, and is judged on observed cells alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.protocols import Tile
from missdiff_fast._engine.random import derive, make_key, make_keys, seeded
from missdiff_fast._engine.sampling import most_probable
from missdiff_fast._engine.tiling import shrinking, tiles
from missdiff_fast._engine.training import batches
from missdiff_fast.config import DiffusionConfig, PaperConfig
from missdiff_fast.diffusion.likelihood import evidence_bound
from missdiff_fast.diffusion.process import Process, variance_exploding, variance_preserving
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.methods.base import Method, empty_codes, part
from missdiff_fast.methods.noise_training import NoiseStepper
from missdiff_fast.networks import CSDINetwork
from missdiff_fast.table import Codec, EncodedTable
from missdiff_fast.table.min_max import MinMax, check_near

# Every call of one network sees as many rows, so that row i of a sample depends on (seed, i) alone; see
# `sampling.TILE`. A row is as many tokens as it has encoded columns, and so many tokens fill a processor.
TOKENS = {"cpu": 1 << 15, "cuda": 1 << 18}
_LEAST_TILE = 16  # rows of a tile made smaller because a GPU has no memory for larger ones


class NoisePrediction(Method):
    """MissDiff as printed: masked denoising score matching (Algorithm 1) and ancestral sampling (Algorithm 2).

    Known cells of a row to be completed are held by replacement: at every level they are noised afresh and written
    over the chain's own. An imputation is the median of many chains, as in the released code. (The released code noises
    the known cells step by step along one path: the same law at each level, another one of the levels together.)

    With the compiled ops on a GPU, the network runs in bfloat16 where torch's autocast allows it, in training and in
    sampling (weights and rows stay float32), and a training step is replayed as a CUDA graph.

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
    >>> method.fit(table, 0, History(), refine=False, verbose=False)
    >>> method.draw(table, seed=0).isna().sum().to_dict()
    {'x': 0, 'y': 0}
    """

    def __init__(self, codec: Codec, config: PaperConfig, device: torch.device, backend: Backend) -> None:
        super().__init__(codec, device, backend)
        self.config = config
        self.process = make_process(config.diffusion)
        self._alpha, self._sigma = self.process.alpha.float().to(device), self.process.sigma.float().to(device)
        self._coefficients = self.process.coefficients.float().to(device)

    @property
    def fitted(self) -> bool:
        """As `Method.fitted`."""
        return hasattr(self, "_network")

    def fit(self, table: EncodedTable, seed: int, history: History, *, refine: bool, verbose: bool) -> None:
        """Algorithm 1. ``refine`` has no meaning here."""
        self._learn_encoding(table)
        with seeded(derive(seed, "weights")):  # and dropout
            self._network = self._new_network().train()
            try:
                self._train(table, seed, history, verbose)
            finally:
                self._network.eval()

    def _learn_encoding(self, table: EncodedTable) -> None:
        self._min_max = MinMax.fit(table, self.codec.scales, self.config.missing)
        self._worst_missing = 1 - table.observed().double().mean(0).min().cpu()

    def _train(self, table: EncodedTable, seed: int, history: History, verbose: bool) -> None:
        settings, backend, device = self.config.training, self.backend, self.device
        steps, batch_size = settings.resolve(len(table))
        cells, (low, high) = self._min_max.encode(table), self._min_max.levels
        # Every cell is noised, also what stands for a missing one; judged are the observed ones.
        loss_states = torch.where(table.observed(), NOISY, HIDDEN).to(torch.uint8)
        noisy = torch.full((batch_size, loss_states.shape[1]), NOISY, dtype=torch.uint8, device=device)
        order = batches(len(table), batch_size, torch.Generator().manual_seed(derive(seed, "batches")))
        level_seed, noise_seed = derive(seed, "levels"), derive(seed, "noise")
        if self._replays:
            stepper = NoiseStepper(
                *(self._network, self._predict, cells, loss_states, self._alpha, self._sigma, (low, high)),
                *(settings, backend),
            )
            with Progress(history, "fit", steps, verbose) as progress:
                stepper.train(order, level_seed, noise_seed, steps, batch_size, progress)
            return
        optimizer = torch.optim.Adam(
            self._network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        with Progress(history, "fit", steps, verbose) as progress:
            for step in range(steps):
                optimizer.param_groups[0]["lr"] = settings.rate(step, steps)
                rows = next(order).to(device)
                uniform = backend.uniform(rows, 1, make_key(level_seed, step, device))[:, 0]
                t = (uniform * len(self.process)).long().clamp(max=len(self.process) - 1)
                key = make_key(noise_seed, step, device)
                x = backend.perturb(cells, rows, noisy, self._alpha[t], self._sigma[t], key, low=low, high=high)
                loss = backend.masked_noise_loss(self._predict(x, t), cells, rows, loss_states[rows], key)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                progress.add(loss)

    def draw(
        self, known: EncodedTable, seed: int, *, careful: bool = False, verbose: bool = False, desc: str = "sample"
    ) -> pd.DataFrame:
        """Algorithm 2. ``careful`` has no meaning here: there are always T steps."""
        return self._rows(known, ((a, b, chains[0]) for a, b, chains in self._chains(known, [seed], verbose, desc)))

    def impute(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> pd.DataFrame:
        """The median of ``draws`` chains for every encoded cell, and of a group's medians the greatest."""
        chains = self._chains(table, self._draw_seeds(seed), verbose, "impute")
        return self._rows(table, ((a, b, chain.median(0).values) for a, b, chain in chains))

    def predict_proba(self, table: EncodedTable, group: int, seed: int, *, verbose: bool = False) -> Tensor:
        """As `Method.predict_proba`: the shares of ``draws`` chains that end in each category."""
        count, first = table.layout.cardinalities[group], int(self._min_max.layout.offsets()[group])
        chances = torch.empty((len(table), count))
        for a, b, chain in self._chains(table, self._draw_seeds(seed), verbose, "impute"):
            winners = chain[:, :, first : first + count].argmax(2)
            chances[a:b] = torch.nn.functional.one_hot(winners, count).float().mean(0)
        return chances

    @torch.inference_mode()
    def nll_bound(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> Tensor:
        """The right-hand side of Theorem 3.2 for each row's encoded cells, with rho_max of the training table."""
        self._check_near(table)
        bounds = torch.empty(len(table), dtype=torch.float64)
        T = len(self.process)
        keys, levels = make_keys(derive(seed, "bound"), T, self.device), self._levels()
        with self._bar(table, 1, verbose, "score") as bar:
            for start, stop, piece in tiles(table, self._tile):
                rows, observed, x0 = self._clean(piece, start)
                errors = torch.empty((self._tile, T), dtype=torch.float64, device=self.device)
                for t in range(T):
                    eps = self.backend.normal(rows, x0.shape[1], keys[t])
                    x = self._alpha[t] * x0 + self._sigma[t] * eps
                    error = eps - self._predict(x, levels[t], exactly=True)
                    errors[:, t] = torch.where(observed, error.double() ** 2, 0.0).sum(1)
                    bar.update()
                factor = 1 / (1 - float(self._worst_missing))
                bound = evidence_bound(self.process, errors, x0.double(), observed, factor)
                bounds[start:stop] = bound[: stop - start].cpu()
        return bounds

    def weights(self) -> dict[str, Tensor]:
        """As `Method.weights`."""
        network = {f"network.{name}": tensor for name, tensor in self._network.state_dict().items()}
        encoding = {"encoding.low": self._min_max.low, "encoding.span": self._min_max.span}
        return network | encoding | {"encoding.worst_missing": self._worst_missing}

    def load(self, weights: dict[str, Tensor]) -> None:
        """As `Method.load`."""
        low, span = weights["encoding.low"].to(self.device), weights["encoding.span"].to(self.device)
        self._min_max = MinMax.make(low, span, self.codec.scales, self.codec.layout, self.config.missing)
        self._worst_missing = weights["encoding.worst_missing"]
        self._network = self._new_network()
        self._network.load_state_dict(part(weights, "network"))
        self._network.eval()

    @property
    def _tile(self) -> int:
        """Rows of one call: a power of two from 64 to 2,048."""
        return 1 << min(11, max(6, (self._tokens // self._min_max.layout.width).bit_length() - 1))

    @property
    def _at_once(self) -> int:
        """Chains of a tile that one call of the network carries on: on the CPU one."""
        if self.device.type == "cpu":
            return 1
        # Kernels of attention refuse batches of 2^16 rows.
        return max(1, min(self._tokens // self._min_max.layout.width, 1 << 15) // self._tile)

    @property
    def _tokens(self) -> int:
        return TOKENS[self.device.type]

    @property
    def _replays(self) -> bool:
        """Whether training steps are replayed on a GPU: the reference waits for it now and then, and cannot be."""
        return self.device.type == "cuda" and self.backend.capturable

    def _precision(self) -> AbstractContextManager[object]:
        """In which the network is trained and drawn from."""
        if self._replays:
            return torch.autocast("cuda", torch.bfloat16, cache_enabled=not torch.is_grad_enabled())
        return nullcontext()

    def _levels(self) -> Tensor:
        """The places of all noise levels, each as the network is told it: int64 ``[T, 1]``."""
        return torch.arange(len(self.process), device=self.device)[:, None]

    def _new_network(self) -> CSDINetwork:
        width, steps = self._min_max.layout.width, len(self.process)
        return CSDINetwork(width, steps, **vars(self.config.network)).to(self.device)

    def _predict(self, x: Tensor, t: Tensor, *, exactly: bool = False) -> Tensor:
        """The predicted noise, in float32 if ``exactly``.

        Rows of the variance-exploding process are brought to a variance near 1 first.
        """
        if self.config.diffusion.sde == "ve":
            x = x * torch.rsqrt(1 + self._sigma[t] ** 2)[:, None]
        with nullcontext() if exactly else self._precision():
            prediction: Tensor = self._network(x, t)
        return prediction

    def _rows(self, table: EncodedTable, pieces: Iterator[tuple[int, int, Tensor]]) -> pd.DataFrame:
        """The table that encoded rows ``[stop - start, D]`` stand for."""
        values, codes = torch.empty((len(table), table.layout.num_continuous)), empty_codes(table)
        for start, stop, x in pieces:
            values[start:stop] = self._min_max.values(x)
            codes[start:stop] = most_probable(self._min_max.categories(x), self._min_max.layout, self.backend)
        return self.codec.decode_means(values, codes)

    def _draw_seeds(self, seed: int) -> list[int]:
        return [derive(seed, "draws", m) for m in range(self.config.draws)]

    def _chains(
        self, known: EncodedTable, seeds: list[int], verbose: bool, desc: str
    ) -> Iterator[tuple[int, int, Tensor]]:
        """Completions of each tile by Algorithm 2, one for each seed: (start, stop, ``[seeds, stop - start, D]``)."""
        self._check_near(known)
        groups = [seeds[i : i + self._at_once] for i in range(0, len(seeds), self._at_once)]
        with self._bar(known, len(seeds), verbose, desc) as bar:

            def work(start: int, piece: EncodedTable) -> Tensor:
                return torch.cat([self._chain(piece, start, group, bar) for group in groups])

            for start, stop, chains in shrinking(known, Tile(self._tile, padded=True), work, least=_LEAST_TILE):
                yield start, stop, chains[:, : stop - start]

    @torch.inference_mode()
    def _chain(self, piece: EncodedTable, start: int, seeds: list[int], bar: tqdm) -> Tensor:
        """Completions of one tile, carried on together: ``[seeds, B, D]``."""
        backend, device, T = self.backend, self.device, len(self.process)
        rows, held, clean = self._clean(piece, start)
        shape = len(seeds), *clean.shape
        states = torch.where(piece.observed(), CLEAN, NOISY).to(torch.uint8)
        offsets, some_held = self._min_max.layout.offsets(device), bool(held.any())
        keys = [make_keys(seed, T + 1, device) for seed in seeds]
        replace_keys = [make_keys(derive(seed, "replace"), T, device) for seed in seeds]

        def noise(keys: list[Tensor], step: int) -> Tensor:
            return torch.stack([backend.normal(rows, shape[2], key[step]) for key in keys])

        x = noise(keys, 0) * self.process.prior
        for i, t in enumerate(reversed(self._levels())):
            if some_held:
                x = torch.where(held, self._alpha[t] * clean + self._sigma[t] * noise(replace_keys, i), x)
            prediction = self._predict(x.flatten(0, 1), t).view(shape)
            coefficients = self._coefficients[i]
            moved = [
                backend.step(one, noise_of_one, None, states, offsets, coefficients, rows, key[i + 1], softmax=False)[0]
                for one, noise_of_one, key in zip(x, prediction, keys, strict=True)
            ]
            x = torch.stack(moved)
            bar.update(len(seeds))
        if not bool(torch.isfinite(x).all()):
            raise FloatingPointError(
                "the model drew cells that are not finite: fit it again with a lower learning_rate"
            )
        return torch.where(held, clean, x)

    def _check_near(self, table: EncodedTable) -> None:
        check_near(self._min_max.encode(table).continuous, self.codec.schema.continuous)

    def _clean(self, piece: EncodedTable, start: int) -> tuple[Tensor, Tensor, Tensor]:
        """A tile's global row numbers ``[B]``, where it is observed ``[B, D]``, and its encoded rows."""
        inside = torch.arange(len(piece), device=self.device)
        ones, (low, high) = torch.ones(len(piece), device=self.device), self._min_max.levels
        observed = piece.observed()
        states = torch.full(observed.shape, CLEAN, dtype=torch.uint8, device=self.device)
        key = make_key(0, 0, self.device)  # nothing is noisy, so no noise is drawn
        cells = self._min_max.encode(piece)
        x0 = self.backend.perturb(cells, inside, states, ones, ones, key, low=low, high=high)
        return inside + start, observed[:, self._min_max.layout.groups(self.device)], x0

    def _bar(self, table: EncodedTable, chains: int, verbose: bool, desc: str) -> tqdm:
        total = -(-len(table) // self._tile) * chains * len(self.process)
        return tqdm(total=total, desc=desc, unit="step", delay=2, disable=None if verbose else True)


def make_process(config: DiffusionConfig) -> Process:
    """The noising process of these settings."""
    if config.sde == "vp":
        return variance_preserving(config.steps, config.beta_min, config.beta_max, config.variance)
    return variance_exploding(config.steps, config.sigma_min, config.sigma_max, config.variance)
