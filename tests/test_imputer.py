"""The network that imputes: trained on known and hidden cells alone, of few rows a new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import missdiff_fast._engine.imputer as imputer_module
import missdiff_fast._engine.refinement as refinement_module
from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.history import History
from missdiff_fast._engine.imputer import train_imputer
from missdiff_fast._engine.refinement import Networks
from missdiff_fast.config import Config, ImputerConfig, ObjectiveConfig, TrainingConfig
from missdiff_fast.evaluate import imputation
from missdiff_fast.missingness import hide
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout


def _table(rows: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=rows)
    table = pd.DataFrame({"x": x, "y": x + random.normal(size=rows), "c": np.where(x > 0, "a", "b")})
    return table.mask(random.random(table.shape) < 0.2)


def _chosen(model: MissDiff) -> dict[str, Any]:
    return dict(zip(model.training_["setting"], model.training_["value"], strict=True))


LAYOUT = Layout(2)


def _trained(
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    steps: int,
    losses: tuple[float, float] = (1.0, 1.0),
    *,
    held: bool = True,
) -> tuple[str, str, History]:
    """The network that training starts from, and the one that imputes afterwards, given both networks' losses."""
    former, new = (Denoiser(LAYOUT, width=8, blocks=1) for _ in range(2))
    scores = torch.randn(rows, 2)
    table = EncodedTable(scores, torch.zeros(rows, 0, dtype=torch.int16), LAYOUT, scores)
    networks, history, began = Networks(former, former), History(), []
    monkeypatch.setattr(imputer_module, "train", lambda network, *a, **_: began.append(network))
    monkeypatch.setattr(refinement_module, "probe_loss", lambda network, *a: losses[network is new])
    config = replace(Config(), training=TrainingConfig(steps=steps))
    held_out = table.rows(slice(0, 10)) if held else None
    train_imputer(networks, lambda: new, table, held_out, config, ReferenceBackend(), 0, history)
    names = {id(former): "former", id(new): "new"}
    return names.get(id(began[0]), "copy"), names.get(id(networks.imputer), "copy"), history


def test_of_few_rows_it_is_a_new_network_and_of_many_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _trained(monkeypatch, 1999, 400)[:2] == ("new", "new")
    assert _trained(monkeypatch, 2000, 400)[:2] == ("copy", "copy")


def test_a_short_training_is_that_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _trained(monkeypatch, 500, 398)[:2] == ("copy", "copy")


def test_a_new_network_that_imputes_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _trained(monkeypatch, 500, 400, (1.0, 0.9))[:2] == ("new", "new")
    began, imputer, history = _trained(monkeypatch, 500, 400, (1.0, 1.1))
    assert (began, imputer) == ("new", "former")
    assert history.choices == [
        ("imputer.steps", 200, "a new network, of few rows: not kept, its loss on held-out rows was greater")
    ]
    assert _trained(monkeypatch, 500, 400, (1.0, 1.1), held=False)[:2] == ("new", "new")


@pytest.mark.parametrize(("new_rows", "steps"), [(2000, 20), (100, 10)])
def test_a_fit_tells_its_steps(new_rows: int, steps: int) -> None:
    settings = {"imputer.new_rows": new_rows, "calibration.rounds": 0}
    model = MissDiff(steps=40, width=16, settings=settings, random_state=0).fit(_table())
    assert _chosen(model)["imputer.steps"] == steps
    assert model.history_["step"].max() == 60 + steps + 5  # of the network for rows with holes


def test_it_sees_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ObjectiveConfig] = []
    train = imputer_module.train
    monkeypatch.setattr(imputer_module, "train", lambda *a, **options: seen.append(a[2]) or train(*a, **options))
    MissDiff(steps=4, width=16, random_state=0).fit(_table())
    (objective,) = seen
    assert (objective.clean_share, objective.hidden_share, objective.impute_share) == (0, 0, 1)


def test_without_it_the_network_of_refinement_imputes() -> None:
    settings = {"imputer.new_share": 0.0}
    model = MissDiff(steps=4, width=16, settings=settings, random_state=0).fit(_table())
    assert "imputer.steps" not in _chosen(model)
    assert model.history_["step"].max() == 6 + 1


def test_more_rows_than_some_take_no_more_steps() -> None:
    steps = [TrainingConfig().resolve(rows)[0] * ImputerConfig().share(rows) for rows in (16_000, 32_000, 350_000)]
    assert steps == pytest.approx([1000, 1000, 1000], abs=0.5)


def test_an_interrupted_training_leaves_the_network_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(imputer_module, "train", interrupt)
    model = MissDiff(steps=4, width=16, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(_table())
    assert not model.impute(_table()).isna().any().any()


def test_few_rows_are_imputed_better_by_a_new_network() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(300, 2)) @ random.normal(size=(2, 16)) + random.normal(size=(300, 16))
    truth = pd.DataFrame(np.digitize(values, [-1, 1]).astype(str)).rename(columns=str)
    table, kept = hide(truth, "independent", 0.2, 0)
    wrong = []
    for new in (0.5, 0.0):
        settings = {"imputer.new_share": new, "blend.rows_per_feature": 0, "calibration.rounds": 0}
        filled = MissDiff(settings=settings, refine=0, random_state=0).fit(table).impute(table)
        wrong.append(float(imputation(truth, filled, kept).iloc[0]["category_error"]))
    assert wrong[0] < wrong[1] - 3


def test_its_share_is_that_of_the_rows() -> None:
    config = ImputerConfig(step_share=0.1, new_rows=50, new_share=0.7)
    assert [config.share(rows) for rows in (49, 50)] == [0.7, 0.1]
    with pytest.raises(ValueError, match=r"imputer\.new_share"):
        ImputerConfig(new_share=-1)
