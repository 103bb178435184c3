"""Frequent values of continuous columns as categories of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.batches import TrainBatches
from missdiff_fast._engine.imputation import probe_loss
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.training import Phase, _draw_batches
from missdiff_fast.config import AtomsConfig, ObjectiveConfig, SolverConfig
from missdiff_fast.methods import ColumnStates
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.mlp import Prepared
from missdiff_fast.table import Codec, EncodedTable, read_frame
from missdiff_fast.table.atoms import Atoms

N = 2000


def _table(seed: int = 0) -> pd.DataFrame:
    """A code and its number, a charge with many zeros, one whose every value is frequent, a date, and no spike."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 5, N)
    charge = np.where(rng.random(N) < 0.6, 0.0, rng.lognormal(3, 1, N).round(2))
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.where(rng.random(N) < 0.5, 0, rng.integers(1, 3000, N)), "D")
    table = pd.DataFrame(
        {
            "name": np.array(["a", "b", "c", "d", "e"])[level],
            "level": level * 10,
            "charge": charge,
            "day": day,
            "age": rng.normal(60, 15, N),
        }
    )
    return table.mask(rng.random(table.shape) < 0.1)


def _encoded(table: pd.DataFrame, share: float = 0.01) -> tuple[Codec, EncodedTable, Atoms]:
    cells = read_frame(table)
    codec = Codec.fit(cells, ops=ReferenceBackend())
    return codec, codec.encode(cells, seed=0), codec.atoms(share, 10, 600)


def test_atoms_are_the_frequent_values() -> None:
    table = _table()
    codec, encoded, atoms = _encoded(table)
    level, charge, day, age = (codec.schema.continuous.index(name) for name in ("level", "charge", "day", "age"))
    assert atoms.layout.partners == (level, charge, day)
    assert age not in atoms.layout.partners
    assert atoms.layout.cardinalities == (5, 5, 2, 2)  # all five levels are atoms, so there is no other value
    codes = atoms.add(encoded).codes
    want = table["level"] / 10
    assert torch.equal(codes[:, 1], torch.from_numpy(want.fillna(-1).to_numpy(np.int16)))
    is_zero = np.where(table["charge"].isna(), -1, np.where(table["charge"] == 0, 0, 1))
    assert codes[:, 2].tolist() == is_zero.tolist()
    observed = atoms.add(encoded).observed()
    assert torch.equal(observed[:, [-3, -2, -1]], observed[:, [level, charge, day]])


def test_a_share_of_one_is_no_atom() -> None:
    codec, encoded, atoms = _encoded(_table(), 1.0)
    assert atoms.layout == codec.layout
    assert atoms.add(encoded) is encoded


def test_at_most_256_atoms_are_taken_and_too_rare_values_are_none() -> None:
    values = np.repeat(np.arange(400), np.where(np.arange(400) < 300, 20, 9))
    _, _, atoms = _encoded(pd.DataFrame({"x": values}), 1e-4)
    assert atoms.layout.cardinalities == (257,)
    _, _, few = _encoded(pd.DataFrame({"x": values[values >= 200]}), 1e-4)
    assert few.layout.cardinalities == (101,)  # of 200 values half occur nine times


def test_values_at_the_threshold_are_atoms() -> None:
    table = pd.DataFrame({"x": np.repeat(np.arange(10) * 1.5, 100), "y": np.repeat(np.arange(100) * 1.5, 10)})
    assert _encoded(table, 0.1)[2].layout.cardinalities == (10,)
    assert _encoded(table, 0.01)[2].layout.cardinalities == (10, 100)


def test_of_more_values_than_are_kept_only_frequent_ones_are_atoms() -> None:
    values = np.append(np.arange(150_000.0), np.full(300, 0.5))
    _, encoded, atoms = _encoded(pd.DataFrame({"x": values}), 1e-9)
    assert atoms.layout.cardinalities == (2,)
    assert int((atoms.add(encoded).codes == 0).sum()) <= 302  # two neighbours may be taken for it


def test_numbers_that_fit_did_not_see_are_no_atoms() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": np.where(rng.random(N) < 0.7, rng.integers(0, 3, N) * 50.0, rng.uniform(0, 100, N))})
    codec, _, atoms = _encoded(table)
    near = pd.DataFrame({"x": [0.0, 50.0, 100.0, 49.999, 50.001, 99.999, 1e-9]})
    assert atoms.add(codec.encode(codec.read(near))).codes[:, 0].tolist() == [0, 1, 2, 3, 3, 3, 3]


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 7.5, 1e18],
        [0.3, 1 / 3, np.pi, 0.1234567],
        np.array([3, 7, 10**18]),
        pd.to_datetime(["2024-10-27T00:00Z", "2024-10-27T01:00Z", "2024-11-27T01:00Z"]).tz_convert("Europe/Berlin"),
        np.array(["2024-01-01T00:00:01", "9999-12-31T23:59:59", "2024-01-01"], dtype="datetime64[us]"),
        pd.array([1, 2**63, 2**64 - 1], dtype="UInt64"),
    ],
)
def test_an_atom_that_is_sure_is_imputed_exactly(values: Any) -> None:
    table = pd.DataFrame({"x": pd.Series(values).repeat(20).reset_index(drop=True)})
    codec, encoded, atoms = _encoded(table)
    means, none = torch.zeros(len(table), 1), torch.zeros(len(table), 0, dtype=torch.int16)
    codes = atoms.add(encoded).codes[:, 0]
    logits = 20 * torch.nn.functional.one_hot(codes.long()).float()
    pd.testing.assert_frame_equal(codec.decode_means(means, none, atoms.sure(logits)), table)
    assert not codec.decode_means(means, none).equals(table)
    assert atoms.sure(0 * logits).eq(-1).all()


def test_decoded_numbers_are_the_drawn_atoms_or_none() -> None:
    codec, _, atoms = _encoded(_table())
    charge = codec.schema.continuous.index("charge")
    rows = 4
    bins = torch.zeros((rows, codec.layout.num_continuous), dtype=torch.int32)  # the score says 0, an atom
    codes = torch.zeros((rows, atoms.layout.num_categorical), dtype=torch.int16)
    codes[:, 1] = torch.tensor([4, 3, 2, 1])
    codes[:, 2] = torch.tensor([0, 1, 0, 1])
    settled, own = atoms.settle(bins, codes, torch.zeros(rows, codec.layout.num_continuous))
    assert own.shape == (rows, 1)
    frame = codec.decode(settled, own)
    assert frame["level"].tolist() == [40, 30, 20, 10]
    charges = frame["charge"]
    assert charges[[0, 2]].tolist() == [0.0, 0.0]
    positive = np.unique(_table()["charge"][lambda x: x > 0])
    assert set(charges[[1, 3]]) <= set(positive[: len(positive) // 10])
    assert settled[:, charge].bool().tolist() == [False, True, False, True]
    assert not bins.any()


def test_a_column_and_its_atoms_have_one_state() -> None:
    _, encoded, atoms = _encoded(_table())
    table = atoms.add(encoded)
    phase = Phase("fit", 4, 256, 1e-3, 10, 0.9)
    partners = torch.tensor(atoms.layout.partners)

    def same(states: Tensor) -> bool:
        return torch.equal(states[..., -len(partners) :], states[..., partners])

    parts: list[TrainBatches] = list(
        _draw_batches(table, table.observed(), None, ObjectiveConfig(), phase, ReferenceBackend(), 0)
    )
    assert parts
    assert all(same(part.states) and same(part.loss_states) for part in parts)
    assert all(len(part.states.unique()) == 3 for part in parts)


def test_filled_scores_lie_in_the_interval_of_the_drawn_atom() -> None:
    _, encoded, atoms = _encoded(_table())
    table, backend = atoms.add(encoded), ReferenceBackend()
    torch.manual_seed(0)
    network = Denoiser(atoms.layout, width=16, blocks=1)
    torch.nn.init.normal_(network.outputs.weight)
    filled = fill(network, table, SolverConfig(steps=3), backend, 0)
    holes = ~table.observed()
    for k, c in enumerate(atoms.layout.partners, atoms.plain.num_categorical):
        hole = holes[:, c]
        assert torch.equal(hole, holes[:, atoms.layout.num_continuous + k])
        for code in filled.codes[hole, k].unique():
            seen = table.continuous[table.codes[:, k] == code, c]
            drawn = filled.continuous[hole & (filled.codes[:, k] == code), c]
            assert seen.min() <= drawn.min() <= drawn.max() <= seen.max()


def test_a_held_out_number_is_hidden_with_its_atom() -> None:
    _, encoded, atoms = _encoded(_table())
    table, partners = atoms.add(encoded), torch.tensor(atoms.layout.partners)
    shown: list[Tensor] = []

    class Recorder(Denoiser):
        def forward(self, x: Tensor, sigma: Tensor, states: Tensor, prepared: Prepared | None = None) -> Tensor:
            shown.append(states)
            return super().forward(x, sigma, states, prepared)

    probe_loss(Recorder(atoms.layout, width=8, blocks=1), table, ReferenceBackend(), 0)
    assert shown
    for states in shown:
        assert torch.equal(states[:, -len(partners) :], states[:, partners])


@pytest.fixture(scope="module")
def model() -> MissDiff:
    return _fit(0.01)


def _fit(share: float) -> MissDiff:
    # Without relations, which would settle the same rows.
    settings = {"atoms.share": share, "relations.enabled": False}
    return MissDiff(steps=2500, refine=0, blocks=2, settings=settings, random_state=0).fit(_table())


def _level(names: pd.Series) -> pd.Series:
    return names.map(dict(zip("abcde", range(0, 50, 10), strict=True)))


def test_a_number_that_the_name_fixes_is_that_number(model: MissDiff) -> None:
    table, without = _table(1), _fit(1.0)
    hidden = table["level"].isna() & table["name"].notna()
    exact, rough = ((m.impute(table)["level"] == _level(table["name"]))[hidden].mean() for m in (model, without))
    assert exact > 0.99
    assert rough < 0.9  # a conditional mean
    both, apart = (
        (rows["level"] == _level(rows["name"])).mean() for rows in (model.sample(20_000), without.sample(20_000))
    )
    assert both > 0.99
    assert apart < 0.98


def test_synthetic_rows_have_the_spikes(model: MissDiff) -> None:
    rows = model.sample(2000)
    assert abs((rows["charge"] == 0).mean() - 0.6) < 0.06
    assert set(rows["level"]) == {0, 10, 20, 30, 40}
    assert rows["day"].dtype == _table()["day"].dtype
    positive = rows["charge"][rows["charge"] > 0]
    assert positive.value_counts(normalize=True).max() < 0.02  # no new spike beside the old one


def test_known_numbers_decide_the_name(model: MissDiff) -> None:
    assert model.sample(500, given={"level": 30})["name"].eq("d").mean() > 0.9
    drawn = model.sample(500, given={"name": "b", "charge": 0.0})
    assert drawn["level"].eq(10).mean() > 0.9
    assert drawn["charge"].eq(0).all()
    table = _table(1).dropna(subset="level")
    chance = model.predict_proba(table, "name")
    assert chance.shape == (len(table), 5)
    assert (_level(chance.idxmax(axis=1)) == table["level"]).mean() > 0.95


def test_draws_and_imputation_keep_observed_cells(model: MissDiff) -> None:
    table = _table(1)
    filled, draws = model.impute(table), model.impute_draws(table, 2)
    for complete in (filled, *draws):
        assert not complete.isna().any().any()
        pd.testing.assert_frame_equal(complete.where(table.notna()), table.astype(complete.dtypes.to_dict()))
    hidden = table["level"].isna() & table["name"].notna()
    assert (draws[0]["level"] == _level(table["name"]))[hidden].mean() > 0.9
    assert np.isfinite(model.score_samples(table)).all()


def test_a_saved_model_draws_the_same_rows(model: MissDiff, tmp_path: Path) -> None:
    model.save(tmp_path / "m.missdiff")
    same = MissDiff.load(tmp_path / "m.missdiff")
    pd.testing.assert_frame_equal(same.sample(100), model.sample(100))
    assert isinstance(same._method, ColumnStates)
    assert same._method.atoms.layout == model._method.atoms.layout  # type: ignore[attr-defined]


def test_both_backends_model_atoms() -> None:
    native, reference = (
        MissDiff(steps=20, width=16, blocks=1, settings={"atoms.share": 0.01}, backend=backend, random_state=0)
        .fit(_table())
        .sample(200)
        for backend in ("auto", "reference")
    )
    pd.testing.assert_series_equal(native.dtypes, reference.dtypes)
    assert abs(native["charge"].eq(0).mean() - reference["charge"].eq(0).mean()) < 0.05


@pytest.mark.parametrize("settings", [{"atoms.share": -0.1}, {"atoms.share": 1.5}, {"atoms.count": 0}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        MissDiff(settings=settings).fit(_table())


@pytest.mark.parametrize("budget", [1, 150, 799])
def test_equally_frequent_values_keep_to_the_budget(budget: int) -> None:
    table = pd.DataFrame({f"x{c}": np.tile(np.arange(100.0), 20) for c in range(8)})
    codec = Codec.fit(read_frame(table), ops=ReferenceBackend())
    atoms = codec.atoms(share=0.0003, count=10, budget=budget)
    assert sum(len(column.bins) for column in atoms._columns) == budget
    assert atoms.layout.partners == tuple(range(-(-budget // 100)))


def test_a_column_without_a_spike_has_no_atoms() -> None:
    # Heart rates and ages have dozens of values of 1 to 3 % each; as categories they lost much of their correlation.
    table = pd.DataFrame({"even": np.tile(np.arange(25.0), 80), "spike": np.where(np.arange(2000) % 10, np.nan, 0.0)})
    table["spike"] = table["spike"].fillna(pd.Series(np.arange(2000.0)))
    codec = Codec.fit(read_frame(table), ops=ReferenceBackend())
    assert codec.atoms(**vars(AtomsConfig())).layout.partners == (1,)
    assert codec.atoms(**vars(AtomsConfig(spike=0.0))).layout.partners == (0, 1)


def test_another_value_lies_on_the_side_of_its_score() -> None:
    # Dense atoms from 100 to 159, rare values below and above: a score in the lower half is none of the upper values.
    values = np.concatenate([np.repeat(np.arange(100.0, 160.0), 30), np.arange(40.0), np.arange(200.0, 240.0)])
    codec = Codec.fit(read_frame(pd.DataFrame({"x": values})), ops=ReferenceBackend())
    atoms = codec.atoms(share=0.01, count=10, budget=100)
    scores = torch.linspace(-1.5, 1.5, 301)[:, None]
    bins = torch.searchsorted(codec.boundaries, scores).int()
    code = torch.full((301, 1), 60, dtype=torch.int16)  # another value
    x = torch.cat([scores, torch.nn.functional.one_hot(code[:, 0].long(), 61)], 1)
    drawn = np.unique(values)[atoms.settle(bins, code, x)[0][:, 0].numpy()]
    assert (np.diff(drawn) >= 0).all()
    assert (drawn[:150] < 100).all()
    assert (drawn[151:] > 159).all()
    assert len(np.unique(drawn)) == 16  # a tenth of the 80 other values on either side


def test_a_column_that_few_rows_observe_has_no_atoms() -> None:
    # Of intensive-care records with few laboratory values, marginals were up to .16 off with atoms, .05 without.
    often = np.tile(np.arange(20.0), 100)
    table = pd.DataFrame({"often": often, "half": often, "seldom": often})
    table.loc[table.index[::2], "half"] = np.nan
    table.loc[table.index[1000:1900], "seldom"] = np.nan
    table.loc[table.index[:200], "seldom"] = np.nan
    codec = Codec.fit(read_frame(table), ops=ReferenceBackend())
    assert codec.atoms(share=0.0003, count=10, budget=600).layout.partners == (0, 1)
