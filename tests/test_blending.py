"""Imputation that averages the network's and a joint normal distribution's."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from missdiff_fast import MissDiff
from missdiff_fast._engine import blending
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.blending import Blend, fit_blend
from missdiff_fast._engine.joint_normal import JointNormal, num_features
from missdiff_fast.config import BlendConfig
from missdiff_fast.evaluate import imputation
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(4, (2,))


def _table(rows: int = 500, missing: float = 0.2) -> tuple[EncodedTable, EncodedTable]:
    """Columns that are one column and noise, and its sign: complete, and with holes."""
    generator = torch.Generator().manual_seed(1)
    common = torch.randn(rows, 1, generator=generator)
    x = (common + 0.3 * torch.randn(rows, 4, generator=generator)) / math.sqrt(1.09)
    codes = (common > 0).to(torch.int16)
    holes = torch.rand(rows, 5, generator=generator) < missing
    holed = x.masked_fill(holes[:, :4], torch.nan)
    return (
        EncodedTable(x, codes, LAYOUT, x),
        EncodedTable(holed, codes.masked_fill(holes[:, 4:], -1), LAYOUT, holed),
    )


class Constant(nn.Module):
    """Predicts the mean of every column, and equal probabilities."""

    def __init__(self, layout: Layout = LAYOUT) -> None:
        super().__init__()
        self.width = layout.width + layout.num_continuous

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        """As `missdiff_fast.networks.Denoiser.forward`."""
        return torch.zeros(len(x), self.width)


class Oracle(nn.Module):
    """Answers with the complete rows, whatever it is shown."""

    def __init__(self, truth: EncodedTable) -> None:
        super().__init__()
        logits = 40.0 * torch.nn.functional.one_hot(truth.codes[:, 0].long(), 2)
        self.answer = torch.cat([truth.continuous, logits, truth.continuous], 1)

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        """As `missdiff_fast.networks.Denoiser.forward`."""
        return torch.cat([self.answer, torch.zeros(len(x) - len(self.answer), self.answer.shape[1])])


def test_conditional_means_are_those_of_the_normal_distribution() -> None:
    complete, holed = _table(4000)
    predicted = JointNormal.fit(holed).predict(holed)
    # Given k of the columns, the mean of another is r sum / (1 + (k - 1) r), by symmetry, without the categories.
    hidden = holed.continuous.isnan()
    error = (predicted[:, :4] - complete.continuous)[hidden].square().mean()
    r = 1 / 1.09
    assert (1 - r**2 * 3 / (1 + 2 * r)) * 0.9 < float(error) < (1 - r**2)  # between three columns known, and one
    assert torch.equal(predicted[:, :4][~hidden], complete.continuous[~hidden])


def test_probabilities_sum_to_1_and_find_the_category() -> None:
    complete, holed = _table()
    chances = JointNormal.fit(holed).predict(holed)[:, 4:]
    torch.testing.assert_close(chances.sum(1), torch.ones(500))
    hidden = holed.codes[:, 0] < 0
    assert float((chances.argmax(1) == complete.codes[:, 0])[hidden].float().mean()) > 0.85


def test_a_row_does_not_depend_on_other_rows() -> None:
    _, holed = _table()
    joint = JointNormal.fit(holed)
    assert torch.equal(joint.predict(holed)[300:303], joint.predict(holed.rows(slice(300, 303))))


def test_no_rows_have_no_predictions() -> None:
    _, holed = _table()
    assert JointNormal.fit(holed).predict(holed.rows(slice(0, 0))).shape == (0, LAYOUT.width)


def test_holes_that_tell_something_are_features() -> None:
    generator = torch.Generator().manual_seed(2)
    flag = (torch.rand(400, 1, generator=generator) < 0.3).to(torch.int16)
    age = torch.randn(400, 1, generator=generator).masked_fill(flag == 0, torch.nan)  # of those with the flag
    known = flag.masked_fill(torch.rand(400, 1, generator=generator) < 0.2, -1)
    table = EncodedTable(age, known, Layout(1, (2,)), age)
    joint = JointNormal.fit(table)
    assert joint.indicators.tolist() == [0]
    hidden = known[:, 0] < 0
    assert torch.equal(joint.predict(table)[hidden, 1:].argmax(1), flag[hidden, 0].long())
    assert JointNormal.fit(_table()[1]).indicators.tolist() == []  # holes at random


def test_columns_of_many_categories_have_no_features() -> None:
    codes = torch.arange(300, dtype=torch.int16)[:, None] % 100
    x = torch.linspace(-2, 2, 300)[:, None]
    table = EncodedTable(x, codes, Layout(1, (100,)), x)
    joint = JointNormal.fit(table)
    assert num_features(table.layout) == len(joint.mean) == 2
    torch.testing.assert_close(joint.predict(table)[:, 1:], torch.full((300, 100), 0.01))


@pytest.mark.parametrize("given", [True, False])
def test_weights_follow_the_errors(given: bool) -> None:
    complete, holed = _table()
    held_out = holed if given else None
    blend = fit_blend(Constant(), holed, held_out, LAYOUT, ReferenceBackend(), 0)
    assert blend is not None
    assert blend.weight.min() > 0.9
    assert fit_blend(Oracle(complete), holed, held_out, LAYOUT, ReferenceBackend(), 0) is None


@pytest.mark.parametrize("rows", [120, 199])
def test_a_distribution_that_fits_noise_has_little_weight(rows: int) -> None:
    """Forty columns that nothing predicts, and a network that says so: without held-out rows, too."""
    layout, x = Layout(40), torch.randn(rows, 40, generator=torch.Generator().manual_seed(0))
    table = EncodedTable(x, torch.zeros(rows, 0, dtype=torch.int16), layout, x)
    fitted = JointNormal.fit(table).predict(table.without(torch.arange(40).expand(rows, 40) % 5 == 0))
    assert float((fitted - x)[:, ::5].square().mean()) < 0.8  # of the rows that it has learnt
    blend = fit_blend(Constant(layout), table, None, layout, ReferenceBackend(), 0)
    assert blend is None or float(blend.weight.mean()) < 0.15


def test_weights_are_learnt_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    complete, _ = _table()
    found, counts = [], []
    predict = JointNormal.predict

    def record(joint: JointNormal, table: EncodedTable) -> Tensor:
        counts.append(len(table))
        return predict(joint, table)

    monkeypatch.setattr(JointNormal, "predict", record)
    for rows in (8192, 200):
        monkeypatch.setattr(blending, "_ROWS", rows)
        blend = fit_blend(Constant(), complete, None, LAYOUT, ReferenceBackend(), 0)
        assert blend is not None
        found.append(blend.weight)
    assert counts == [500] * 5 + [200] * 10 + [100] * 5
    torch.testing.assert_close(*found)


def test_a_mix_lies_between_both() -> None:
    _, holed = _table()
    joint = JointNormal.fit(holed)
    blend = Blend(joint, torch.tensor([0.0, 0.5, 1.0, 0.5, 0.25]))
    logits, means = blend.mix(holed, torch.zeros(500, 2), torch.zeros(500, 4))
    other = joint.predict(holed)
    torch.testing.assert_close(means, other[:, :4] * torch.tensor([0.0, 0.5, 1.0, 0.5]))
    torch.testing.assert_close(torch.softmax(logits, 1), 0.75 * 0.5 + 0.25 * other[:, 4:])


def _frame(rows: int = 300) -> pd.DataFrame:
    complete, _ = _table(rows)
    frame = pd.DataFrame(complete.continuous.double().numpy(), columns=list("abcd"))
    return frame.assign(sign=np.where(complete.codes[:, 0].numpy() > 0, "up", "down"))


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_few_rows_are_imputed_better(backend: str, tmp_path: Path) -> None:
    truth = _frame()
    observed = np.random.default_rng(3).random(truth.shape) > 0.2
    table = truth.where(observed)
    errors = {}
    for rows in (0, 100):
        settings = {"blend.rows_per_feature": rows, "calibration.rounds": 0}
        model = MissDiff(steps=60, refine=0, settings=settings, random_state=0, backend=backend).fit(table)
        errors[rows] = imputation(truth, model.impute(table), observed).iloc[0]
    assert errors[100]["rmse"] < 0.9 * errors[0]["rmse"]
    model.save(tmp_path / "model")
    again = MissDiff.load(tmp_path / "model", backend=backend)
    pd.testing.assert_frame_equal(again.impute(table), model.impute(table))
    chances = again.predict_proba(table, "sign")
    assert (chances.idxmax(axis=1) == model.impute(table)["sign"])[table["sign"].isna()].all()


def test_a_loaded_distribution_predicts_the_same_bits() -> None:
    _, holed = _table()
    joint = JointNormal.fit(holed)
    blend = Blend(joint, torch.ones(LAYOUT.num_columns))
    stored = {name: tensor.contiguous() for name, tensor in blend.tensors().items()}  # as a model file has them
    loaded = Blend.of(stored, torch.device("cpu")).joint
    x = torch.randn(256, len(joint.mean), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert joint.precision.is_contiguous()
    assert torch.equal(x @ joint.precision, x @ loaded.precision)
    assert torch.equal(joint.predict(holed), loaded.predict(holed))


def test_wide_tables_alone_are_blended() -> None:
    assert not BlendConfig(rows_per_feature=0).applies(1, 1000)
    assert not BlendConfig().applies(100, 1001)
