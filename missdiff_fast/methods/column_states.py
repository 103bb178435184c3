"""The default method: each column of a row is hidden, noisy or clean, and the network sees which."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.blending import Blend, fit_blend
from missdiff_fast._engine.calibration import Calibration, calibrate
from missdiff_fast._engine.device import one_behind, to_host
from missdiff_fast._engine.history import History
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.imputer import train_imputer
from missdiff_fast._engine.incomplete import calibrate_incomplete, train_incomplete
from missdiff_fast._engine.joint_draws import (
    JointDraws,
    affordable,
    candidates,
    choose_columns,
    estimated_seconds,
    narrow,
    work,
)
from missdiff_fast._engine.joint_normal import num_features
from missdiff_fast._engine.length import as_chosen, spare_seconds
from missdiff_fast._engine.normal_draws import NormalDraws
from missdiff_fast._engine.random import derive, make_key, seeded
from missdiff_fast._engine.refinement import MIN_ROWS_TO_HOLD_OUT, Networks, run_phases
from missdiff_fast._engine.refits import bootstrap, refit
from missdiff_fast._engine.sampling import draw, most_probable
from missdiff_fast._engine.tiling import TILE, tiles
from missdiff_fast._progress import progress_bar
from missdiff_fast.config import Config, SolverConfig
from missdiff_fast.diffusion.likelihood import evidence_bound
from missdiff_fast.diffusion.process import Process, variance_exploding
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.methods.base import Method, empty_codes, part
from missdiff_fast.networks import Denoiser
from missdiff_fast.table import Codec, EncodedTable
from missdiff_fast.table.wide import Wide

_BOUND_LEVELS = 100, 0.02, 20.0  # number of levels, least and greatest sigma: the range of training


def _missing_share(table: EncodedTable) -> float:
    """The share of missing cells, 0 for a complete table (a mean of very many ones in float32 may be 1 - 6e-8)."""
    observed = table.observed()
    return int((~observed).sum()) / max(1, observed.numel())


class ColumnStates(Method):
    """Draws rows, with unknown columns noisy and known ones clean, and imputes, with missing columns hidden.

    See `missdiff_fast._engine.refinement` for its training.
    """

    def __init__(self, codec: Codec, config: Config, device: torch.device, backend: Backend) -> None:
        super().__init__(codec, device, backend)
        self.config = config
        self._refits: list[Denoiser] = []
        self._joint: JointDraws | None = None
        self._incomplete: tuple[Denoiser, Calibration] | None = None
        # On the device once, and not for each tile of rows.
        self._value_bounds = codec.boundaries.to(device), codec.starts.to(device)
        self._use(Wide(codec.layout))

    @property
    def fitted(self) -> bool:
        """As `Method.fitted`."""
        return hasattr(self, "_networks")

    @property
    def draws_holes(self) -> bool:
        """As `Method.draws_holes`: where cells were missing, and the fit was not interrupted before."""
        return self._incomplete is not None

    @property
    def num_refits(self) -> int:
        """As `Method.num_refits`."""
        return len(self._refits)

    def fit(self, table: EncodedTable, seed: int, history: History, *, verbose: bool) -> None:
        """As `Method.fit`."""
        self._use(Wide.learn(table, self.config.categories.one_hot))
        network = self._new_network(seed, 0)
        self._networks, self._blend, self._refits, self._joint = Networks(network, network), None, [], None
        self._calibration, self._incomplete = Calibration.none(self.atoms.layout, self.device), None
        rounds = self.config.refine.rounds_for(_missing_share(table))
        # One mistyped number would be most of a column's squared error, and make all other values look equal.
        table = self._shown(self.codec.without_outliers(table))
        trained, held_out = run_phases(
            self._networks, table, self.config, self.backend, seed, history, rounds=rounds, verbose=verbose
        )
        config = as_chosen(self.config, history, len(table))
        new_network = partial(self._new_network, seed, 1)
        train_imputer(
            self._networks, new_network, trained, held_out, config, self.backend, seed, history, verbose=verbose
        )
        networks, plain = self._networks, self.wide.layout
        if self.config.blend.applies(len(trained), num_features(plain)):
            self._blend = fit_blend(networks.imputer, trained, held_out, plain, self.backend, seed)
            if self.config.blend.draws:
                self._joint = self._fit_joint(table, trained, held_out, seed, history)
        self._calibration = calibrate(
            networks.generator, networks.imputer, table, held_out, self.config, self.backend, seed
        )
        if held_out is not None and self.config.calibration.rounds:
            levels = f"from {self.config.solver.sigma_min:g} to {self.config.calibration.sigma_min:g}"
            reason = f"{levels}, by {len(held_out):,} held-out rows; of too few the lowest"
            history.choose("last noise level of draws", round(float(self._calibration.sigma_min), 3), reason)
        incomplete = train_incomplete(networks.generator, table, config, self.backend, seed, history, verbose=verbose)
        if incomplete is not None:
            self._incomplete = incomplete, Calibration.none(self.atoms.layout, self.device)
            self._incomplete = incomplete, calibrate_incomplete(incomplete, table, config, self.backend, seed)
        for m in range(config.refits.number):
            copy = refit(
                self._networks.generator,
                table,
                config,
                self.backend,
                seed,
                history,
                number=m,
                refined=rounds > 0,
                verbose=verbose,
            )
            self._refits.append(copy)

    def _fit_joint(
        self, table: EncodedTable, trained: EncodedTable, held_out: EncodedTable | None, seed: int, history: History
    ) -> JointDraws | None:
        """The columns that a joint normal distribution draws, and the distributions of all rows and of the refits'.

        Where no rows are held out nothing tells which draws are better: the network's of rows that it was trained on
        always seem so. Of very few rows the simpler distribution draws then, of others the network.
        """
        backend, plain = self.backend, self.wide.layout
        if held_out is None and len(trained) >= MIN_ROWS_TO_HOLD_OUT:
            return None
        possible = columns = candidates(plain, self.codec.relations.numeric)
        if not bool(possible.any()):
            return None
        rows = narrow(self.atoms.removed(trained))
        size = {"held_out": len(held_out or ()), "refits": self.config.refits.number}
        if not affordable(len(table), rows.layout, **size):
            return None
        spare = spare_seconds(self.config, table, history)
        if spare < math.inf and (
            spare <= 0 or estimated_seconds(work(len(table), rows.layout, **size), rows, backend) > spare
        ):
            history.choose("blend.draws", 0, f"a budget of {self.config.training.budget:g} s")
            return None
        joint = NormalDraws.fit(rows, backend, seed)
        if held_out is not None:
            columns = choose_columns(
                self._networks.generator,
                joint,
                self.atoms.removed(held_out),
                possible,
                self.atoms.add,
                self._decoded,
                self._decoded_table,
                self.codec.ranks(),
                self.config.solver,
                backend,
                seed,
            )
            if not bool(columns.any()):
                return None
            rows = narrow(self.atoms.removed(table))
            joint = NormalDraws.fit(rows, backend, seed, joint)
        refits = [
            NormalDraws.fit(bootstrap(rows, seed, m), backend, derive(seed, "refit", m), joint)
            for m in range(self.config.refits.number)
        ]
        return JointDraws(columns.to(self.device), joint, refits)

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
        """As `Method.draw`."""
        if hidden is not None:
            hidden = self.atoms.layout.with_own_partners(hidden.to(self.device))
        known, joint = self.wide.add(known), self._joint if conditional else None
        layout = known.layout
        bin_index = torch.zeros((len(known), layout.num_continuous), dtype=torch.int32)
        codes = torch.zeros((len(known), layout.num_categorical), dtype=torch.int16)

        def store(tile: slice, chosen: Tensor, decoded: Callable[[], tuple[Tensor, ...]]) -> None:
            for drawn, theirs in zip((bin_index, codes), decoded(), strict=True):
                drawn[tile][chosen] = theirs[chosen]

        if joint is None or not bool(joint.columns.all()):
            shown = self.atoms.add(known)

            def begin(part: tuple[int, int, Tensor], rows: Tensor, calibration: Calibration) -> Callable[[], None]:
                start, stop, x = part
                x = calibration.rows(x, shown.rows(slice(start, stop)))
                return partial(store, slice(start, stop), rows[start:stop], to_host(*self._decoded(x)))

            chosen_networks = self._drawing(known, refit, conditional=conditional, incomplete=hidden is not None)
            for network, solver, calibration, rows in chosen_networks:
                parts = draw(
                    network,
                    shown,
                    solver,
                    self.backend,
                    seed,
                    hidden=hidden,
                    first_row=first_row,
                    verbose=verbose,
                    desc=desc,
                )
                one_behind(parts, partial(begin, rows=rows, calibration=calibration))
        if joint is not None:
            filled = joint.with_others(known, self.codec.scores(bin_index), codes)
            filled = joint.fill(filled, self.backend, seed, first_row=first_row, refit=refit)
            # Only missing cells are taken: known ones are those that the network was shown.
            own, taken = self._decoded_table(filled), joint.columns.cpu() & ~known.observed().cpu()
            taken |= joint.columns.cpu().all()  # the network did not draw
            for drawn, theirs, places in zip(
                (bin_index, codes), own, taken.tensor_split([layout.num_continuous], 1), strict=True
            ):
                drawn[places] = theirs.cpu()[places]
        return self.codec.decode(bin_index, self.wide.join(codes))

    def _drawing(
        self, known: EncodedTable, refit: int | None, *, conditional: bool, incomplete: bool
    ) -> list[tuple[Denoiser, SolverConfig, Calibration, Tensor]]:
        """The networks that draw, their noise levels, the corrections of scores, and the rows of each: bool ``[N]``.

        Where missing cells are drawn given the known ones, rows with nothing known are drawn as samples are. Refits
        are other networks, to which no calibration applies.
        """
        every, solver = torch.ones(len(known), dtype=torch.bool), self.config.solver
        if incomplete and self._incomplete is not None:
            network, calibration = self._incomplete
            return [(calibration.network(network), solver, calibration, every)]
        if refit is not None:
            return [(self._refits[refit], solver, Calibration.none(self.atoms.layout, self.device), every)]
        calibration, empty = self._calibration, ~known.observed().any(1).cpu()
        kinds = ((True, ~empty), (False, empty)) if conditional else ((False, every),)
        return [
            (
                calibration.network(self._networks.generator, conditional=given),
                calibration.solver(solver) if given else solver,
                calibration,
                rows,
            )
            for given, rows in kinds
            if bool(rows.any())
        ]

    def _decoded_table(self, table: EncodedTable) -> tuple[Tensor, Tensor]:
        """As `_decoded`, of rows without atoms; those of missing cells mean nothing."""
        shown = self.atoms.add(table)
        x = torch.cat([shown.continuous.nan_to_num(0.0), shown.one_hot(shown.continuous.dtype)], 1)
        return self._decoded(x)

    def _decoded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Places of the numbers' values, and codes of the table without atoms, of encoded rows; on their device."""
        return self.atoms.settle(*self.backend.decode(x, self._offsets, *self._value_bounds), x)

    def impute(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> pd.DataFrame:
        """Conditional means, or atoms that are nearly certain, and most probable categories, in one pass."""
        codes, means = empty_codes(table), torch.empty((len(table), table.layout.num_continuous))
        atoms = torch.empty(means.shape, dtype=torch.int32) if self.atoms.layout != self.atoms.plain else None
        results = [means, codes] if atoms is None else [means, codes, atoms]
        offsets = self._offsets - self.atoms.layout.num_continuous

        def store(tile: slice, found: Callable[[], tuple[Tensor, ...]]) -> None:
            for result, own in zip(results, found(), strict=True):
                result[tile] = own

        def begin(part: tuple[int, int, Tensor, Tensor]) -> Callable[[], None]:
            a, b, logits, mean = part
            best = most_probable(logits, offsets, self.backend)
            found = [mean, self.wide.most_probable(best, logits)]
            if atoms is not None:
                found.append(self.atoms.sure(logits))
            return partial(store, slice(a, b), to_host(*found))

        one_behind(self._one_pass(table, verbose), begin)
        return self.codec.decode_means(means, codes, atoms, outliers=False)

    def predict_proba(self, table: EncodedTable, group: int, seed: int, *, verbose: bool = False) -> Tensor:
        """As `Method.predict_proba`, in one pass."""
        probabilities = torch.empty((len(table), self.codec.layout.cardinalities[group]))
        for a, b, logits, _ in self._one_pass(table, verbose):
            probabilities[a:b] = self.wide.chances(logits, group)
        return probabilities

    def _one_pass(self, table: EncodedTable, verbose: bool) -> Iterator[tuple[int, int, Tensor, Tensor]]:
        """As `one_pass`, of a table as encoded; blended where the fit found that this helps."""
        table = self.wide.add(table)
        shown = self.atoms.add(table)
        for a, b, logits, means in one_pass(self._networks.imputer, shown, self.backend, verbose=verbose):
            if self._blend is not None:
                logits, means = self._blend.mix(table.rows(slice(a, b)), logits, means)
            yield a, b, logits, means

    @torch.inference_mode()
    def nll_bound(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> Tensor:
        """As `Method.nll_bound`, of the encoded cells with noise of the least level; missing ones are hidden.

        The network models the observed columns of a row alone, so the bound needs no factor for the missing ones
        (unlike that of the paper's Theorem 3.2). A number that has atoms counts with its score and with its category, a
        category of very many with its entry and with its place. Residuals do not count: they are functions of columns
        that do.
        """
        table = self._shown(table)
        process = variance_exploding(*_BOUND_LEVELS)
        bounds = torch.empty(len(table), dtype=torch.float64)
        total = -(-len(table) // TILE) * len(process)
        with progress_bar(total=total, desc="score", unit="step", verbose=verbose) as bar:
            for start, stop, piece in tiles(table, TILE):
                bounds[start:stop] = self._bound(piece, start, process, seed, bar)[: stop - start].cpu()
        return bounds

    def _bound(self, piece: EncodedTable, start: int, process: Process, seed: int, bar: tqdm) -> Tensor:
        backend, layout, network = self.backend, piece.layout, self._networks.generator
        rows, ones = torch.arange(TILE, device=self.device), torch.ones(TILE, device=self.device)
        seen = piece.observed()
        counted = seen.clone()
        counted[:, layout.residuals()] = False
        observed = counted[:, layout.groups(self.device)]
        clean = torch.where(seen, CLEAN, HIDDEN).to(torch.uint8)
        states = torch.where(seen, NOISY, HIDDEN).to(torch.uint8)
        x0 = backend.perturb(piece, rows, clean, ones, ones, make_key(0, 0, self.device))
        errors = torch.empty((TILE, len(process)), dtype=torch.float64, device=self.device)
        for t, sigma in enumerate(process.sigma.tolist()):
            eps = backend.normal(rows + start, layout.width, make_key(derive(seed, "bound"), t, self.device))
            prediction = network(x0 + sigma * eps, sigma * ones[:1], states)
            groups = torch.split(prediction[:, : layout.width], [layout.num_continuous, *layout.cardinalities], 1)
            guess = torch.cat([groups[0], *(torch.softmax(group, 1) for group in groups[1:])], 1)
            # The error of the predicted noise is the error of the predicted clean row divided by sigma.
            errors[:, t] = torch.where(observed, ((guess - x0) / sigma).double() ** 2, 0.0).sum(1)
            bar.update()
        return evidence_bound(process, errors, x0.double(), observed)

    def weights(self) -> dict[str, Tensor]:
        """As `Method.weights`."""
        weights = {f"generator.{name}": tensor for name, tensor in self._networks.generator.state_dict().items()}
        if self._networks.imputer is not self._networks.generator:
            weights |= {f"imputer.{name}": tensor for name, tensor in self._networks.imputer.state_dict().items()}
        if self._blend is not None:
            weights |= {f"blend.{name}": tensor for name, tensor in self._blend.tensors().items()}
        if self._joint is not None:
            weights |= self._joint.tensors()
        if self._incomplete is not None:
            network, calibration = self._incomplete
            weights |= {f"incomplete.network.{name}": tensor for name, tensor in network.state_dict().items()}
            weights |= {f"incomplete.calibration.{name}": tensor for name, tensor in calibration.tensors().items()}
        for m, network in enumerate(self._refits):
            weights |= {f"refits.{m}.{name}": tensor for name, tensor in network.state_dict().items()}
        categories = {f"categories.{name}": tensor for name, tensor in self.wide.state().items()}
        return weights | categories | self._calibration.tensors()

    def load(self, weights: dict[str, Tensor]) -> None:
        """As `Method.load`."""
        self._use(Wide.from_state(self.codec.layout, part(weights, "categories")))
        generator = self._loaded(part(weights, "generator"))
        imputer = self._loaded(part(weights, "imputer")) if part(weights, "imputer") else generator
        self._calibration = Calibration.of(weights, self.device)
        self._networks = Networks(generator, imputer)
        blend = part(weights, "blend")
        self._blend = Blend.of(blend, self.device) if blend else None
        self._joint = JointDraws.of(weights, self.device)
        incomplete = part(weights, "incomplete")
        self._incomplete = None
        if incomplete:
            calibration = Calibration.of(part(incomplete, "calibration"), self.device)
            self._incomplete = self._loaded(part(incomplete, "network")), calibration
        refits = part(weights, "refits")  # none in files of interrupted fits
        numbers = sorted({int(name.partition(".")[0]) for name in refits})
        self._refits = [self._loaded(part(refits, str(m))) for m in numbers]

    def _loaded(self, weights: dict[str, Tensor]) -> Denoiser:
        with seeded(0):  # a network draws its first weights, which are replaced
            network = self._network()
        network.load_state_dict(weights)
        return network.eval()

    def _use(self, wide: Wide) -> None:
        self.wide = wide
        self.atoms = self.codec.atoms(**vars(self.config.atoms), layout=wide.layout)
        self._offsets = self.atoms.layout.offsets(self.device)

    def _shown(self, table: EncodedTable) -> EncodedTable:
        """The table as the network sees it."""
        return self.atoms.add(self.wide.add(table))

    def _new_network(self, seed: int, number: int) -> Denoiser:
        """A network whose weights follow from the seed of a fit and its number there."""
        with seeded(derive(seed, "weights", number)):
            return self._network()

    def _network(self) -> Denoiser:
        return Denoiser(self.atoms.layout, **vars(self.config.network)).to(self.device)
