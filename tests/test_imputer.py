"""The network that imputes: trained on known and hidden cells alone, of few rows a new one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import missdiff_fast._engine.imputer as imputer_module
from missdiff_fast import MissDiff
from missdiff_fast.config import ImputerConfig, ObjectiveConfig
from missdiff_fast.config.training import LARGE
from missdiff_fast.evaluate import imputation
from missdiff_fast.missingness import hide


def _table(rows: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=rows)
    table = pd.DataFrame({"x": x, "y": x + random.normal(size=rows), "c": np.where(x > 0, "a", "b")})
    return table.mask(random.random(table.shape) < 0.2)


def _chosen(model: MissDiff) -> dict[str, Any]:
    return dict(zip(model.training_["setting"], model.training_["value"], strict=True))


@pytest.mark.parametrize(("new_rows", "steps"), [(2000, 20), (100, 10)])
def test_of_few_rows_it_is_a_new_network(monkeypatch: pytest.MonkeyPatch, new_rows: int, steps: int) -> None:
    before: list[list[torch.Tensor]] = []

    def spy(network: Any, *args: Any, **options: Any) -> None:
        before.append([weight.clone() for weight in network.parameters()])
        train(network, *args, **options)

    train = imputer_module.train
    monkeypatch.setattr(imputer_module, "train", spy)
    settings = {"imputer.new_rows": new_rows, "calibration.rounds": 0}
    model = MissDiff(steps=40, width=16, settings=settings, random_state=0).fit(_table())
    assert _chosen(model)["imputer.steps"] == steps
    assert model.history_["step"].max() == 60 + steps
    networks = model._method._networks
    for start, end, drawn in zip(
        before[0], networks.imputer.parameters(), networks.generator.parameters(), strict=True
    ):
        assert not torch.equal(start, end) or new_rows == 2000  # a new bias of 0 may stay
        assert torch.equal(start, drawn) == (new_rows == 100) or not start.any()


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
    assert model.history_["step"].max() == 6


def test_more_rows_than_some_take_no_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(imputer_module, "LARGE", 300)
    monkeypatch.setattr(imputer_module, "train", lambda *a, **_: steps.append(a[3].steps))
    for rows in (400, 900):  # a twentieth is held out
        MissDiff(epochs=4, batch_size=30, width=16, settings={"imputer.new_rows": 0}, random_state=0).fit(_table(rows))
    assert steps == [10, 10]
    assert LARGE == 32_000


def test_an_interrupted_training_leaves_the_network_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(imputer_module, "train", interrupt)
    model = MissDiff(steps=4, width=16, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(_table())
    assert not model.impute(_table()).isna().any().any()


def test_few_rows_are_imputed_better_by_a_new_network() -> None:
    wrong: dict[float, list[float]] = {0.5: [], 0.0: []}
    for seed in (0, 2):
        random = np.random.default_rng(seed)
        values = random.normal(size=(300, 2)) @ random.normal(size=(2, 16)) + random.normal(size=(300, 16))
        truth = pd.DataFrame(np.digitize(values, [-1, 1]).astype(str)).rename(columns=str)
        table, kept = hide(truth, "independent", 0.2, seed)
        for new, errors in wrong.items():
            settings = {"imputer.new_share": new, "blend.rows_per_feature": 0, "calibration.rounds": 0}
            filled = MissDiff(settings=settings, random_state=seed).fit(table).impute(table)
            errors.append(float(imputation(truth, filled, kept).iloc[0]["category_error"]))
    print(wrong)
    assert all(new < old - 3 for new, old in zip(*wrong.values(), strict=True))


def test_its_share_is_that_of_the_rows() -> None:
    config = ImputerConfig(step_share=0.1, new_rows=50, new_share=0.7)
    assert [config.share(rows) for rows in (49, 50)] == [0.7, 0.1]
    with pytest.raises(ValueError, match=r"imputer\.new_share"):
        ImputerConfig(new_share=-1)
