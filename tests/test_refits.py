"""Refits on bootstrap samples: what they change, what they leave, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.history import History
from missdiff_fast._engine.refits import refit
from missdiff_fast.config import Config, NetworkConfig, RefitsConfig, TrainingConfig
from missdiff_fast.errors import DataError
from missdiff_fast.methods import column_states
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

SMALL: dict[str, Any] = {"steps": 40, "batch_size": 32, "width": 16, "blocks": 1, "random_state": 0}


def _table(rows: int = 240, missing: float = 0.3) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=rows)
    table = pd.DataFrame({"x": x, "y": x + random.normal(size=rows), "g": random.choice(list("ab"), rows)})
    return table.mask(random.random(table.shape) < missing)


def _weights(model: MissDiff) -> dict[str, torch.Tensor]:
    return model._method.weights()


def test_the_fit_itself_is_the_same_with_and_without() -> None:
    table = _table()
    plain, more = MissDiff(**SMALL).fit(table), MissDiff(**SMALL, refits=2).fit(table)
    without, found = _weights(plain), _weights(more)
    assert all(torch.equal(found[name], tensor) for name, tensor in without.items())
    assert {name.split(".")[1] for name in found if name not in without} == {"0", "1"}
    pd.testing.assert_frame_equal(plain.impute(table), more.impute(table))
    pd.testing.assert_frame_equal(plain.sample(20), more.sample(20))
    assert more.history_["step"].is_monotonic_increasing
    pd.testing.assert_frame_equal(
        plain.history_[["step", "loss"]], more.history_[["step", "loss"]][: len(plain.history_)]
    )


def test_each_table_is_drawn_from_the_next_refit_and_begins_anew_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = _table()
    model, used = MissDiff(**SMALL, refits=2).fit(table), []
    draw = model._method.draw

    def record(*arguments: Any, refit: int | None = None, **options: Any) -> pd.DataFrame:
        used.append(refit)
        return draw(*arguments, refit=refit, **options)

    monkeypatch.setattr(model._method, "draw", record)
    model.impute_draws(table.head(5), num_draws=5)
    assert used == [0, 1, 0, 1, 0]


def test_one_seed_gives_the_same_draws_and_refits_differ() -> None:
    table = _table()
    first, second = (MissDiff(**SMALL, refits=2).fit(table) for _ in range(2))
    for one, other in zip(first.impute_draws(table, 3), second.impute_draws(table, 3), strict=True):
        pd.testing.assert_frame_equal(one, other)
    found = _weights(first)
    assert not torch.equal(found["refits.0.outputs.weight"], found["refits.1.outputs.weight"])


def test_saved_and_loaded_models_draw_the_same(tmp_path: Path) -> None:
    table = _table()
    model = MissDiff(**SMALL, refits=2).fit(table)
    model.save(tmp_path / "m")
    loaded = MissDiff.load(tmp_path / "m")
    assert loaded.refits == 2
    for one, other in zip(model.impute_draws(table, 3), loaded.impute_draws(table, 3), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_an_interrupted_refit_leaves_the_fit_and_the_finished_refits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, number: int, **options: Any) -> Denoiser:
        if number == 1:
            raise KeyboardInterrupt
        return refit(*arguments, number=number, **options)

    table = _table()
    whole = MissDiff(**SMALL, refits=2).fit(table).impute_draws(table, 1)
    monkeypatch.setattr(column_states, "refit", interrupt)
    model = MissDiff(**SMALL, refits=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table)
    model.save(tmp_path / "m")
    for usable in (model, MissDiff.load(tmp_path / "m")):
        assert not usable.impute(table).isna().any(axis=None)
        pd.testing.assert_frame_equal(usable.impute_draws(table, 2)[0], whole[0])


def test_a_refit_takes_the_steps_that_its_share_says() -> None:
    settings = {"refits.step_share": 0.5, "refits.rounds": 2}
    model = MissDiff(**SMALL, refine=1, refits=3, settings=settings).fit(_table())
    steps = model.history_["step"].tolist()
    assert steps == [40, 60, 80, 85, *range(95, 146, 10)]
    complete = MissDiff(**SMALL, refits=3, settings=settings).fit(_table(missing=0.0))
    assert complete.history_["step"].tolist() == [40, 60, 80, 100, 120]


def test_rows_are_drawn_with_replacement(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(2, (3,))
    number = torch.arange(300.0)[:, None].repeat(1, 2)
    table = EncodedTable(number, torch.zeros(300, 1, dtype=torch.int16), layout, number.clone())
    small = NetworkConfig(width=8, blocks=1)
    config = replace(Config(), network=small, training=TrainingConfig(steps=2), refits=RefitsConfig(2))
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(
        "missdiff_fast._engine.refits.train", lambda network, rows, *_, **__: seen.append(rows.continuous[:, 0])
    )
    network = Denoiser(layout, **vars(small))
    for m in (0, 1):
        refit(network, table, config, any_backend, 0, History(), number=m, refined=False)
    assert [len(rows) for rows in seen] == [300, 300]
    assert all(170 < len(rows.unique()) < 210 for rows in seen)  # 1 - 1/e of 300 is 190
    assert not torch.equal(seen[0], seen[1])


def test_estimates_of_few_rows_spread_more_between_tables(native_backend: Backend) -> None:
    # Half of y is missing: whether the tables agree on its slope shows whether they know how few rows tell it. Of the
    # variance between tables, half is that of the drawn residuals and half that of the slope that 60 rows tell.
    between = {"refits": 0.0, "one fit": 0.0}
    for seed in range(3):
        random = np.random.default_rng(seed)
        x = random.normal(size=120)
        table = pd.DataFrame({"x": x, "y": x + random.normal(size=120)})
        table.loc[random.random(120) < 0.5, "y"] = np.nan
        model = MissDiff(steps=500, width=32, blocks=2, random_state=seed, refits=20).fit(table)
        for name in between:
            slopes = [np.polyfit(draw["x"], draw["y"], 1)[0] for draw in model.impute_draws(table, 20)]
            between[name] += float(np.var(slopes, ddof=1))
            model._method._refits = []  # type: ignore[attr-defined]
    assert between["refits"] > 1.3 * between["one fit"]


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="refits"):
        MissDiff(refits=-1).fit(_table())
    with pytest.raises(DataError, match="preset 'paper' has no refits"):
        MissDiff(preset="paper", refits=2).fit(_table())
    with pytest.raises(DataError, match="refits"):
        MissDiff(refits=2, settings={"refits.number": 3}).fit(_table())
