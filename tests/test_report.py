"""Fidelity and utility in one table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sdmetrics")
pytest.importorskip("sklearn")

from missdiff_fast.evaluate import detection, fidelity, format_report, precision_recall, report, utility


def table(seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=120)
    y = np.where(x + random.normal(size=120) > 0, "yes", "no")
    return pd.DataFrame({"x": x, "w": random.choice(["u", "v"], 120), "y": y})


def test_it_is_what_fidelity_and_utility_say() -> None:
    real, synthetic, test = table(0), table(1), table(2)
    found = report(real, synthetic, test=test, target="y", models=["decision_tree", "adaboost"], random_state=3)
    assert list(found.columns) == ["measure", "model", "metric", "value", "parameters"]
    assert found["value"][:5].tolist() == fidelity(real, synthetic).iloc[0].tolist()
    useful = utility(
        synthetic, test, "y", models=["decision_tree", "adaboost"], real_train=real, grid="small", random_state=3
    )
    pd.testing.assert_frame_equal(found[5:].drop(columns="measure").reset_index(drop=True), useful)


def test_fidelity_alone() -> None:
    found = report(table(0), table(1), continuous=["x"])
    assert found["metric"].tolist() == ["overall", "shapes", "trends", "overall_all_pairs", "trends_all_pairs"]
    assert format_report(found).count("\n") == 5


def test_measures_of_whole_rows_if_asked_for() -> None:
    pytest.importorskip("xgboost")
    real, synthetic = table(0), table(1)
    found = report(real, synthetic, detection=True, precision_recall=True, continuous=["x"], random_state=3)[5:]
    expected = {
        **detection(real, synthetic, continuous=["x"], random_state=3),
        **precision_recall(real, synthetic, continuous=["x"], random_state=3),
    }
    assert dict(zip(found["metric"], found["value"], strict=True)) == expected
    assert found["measure"].tolist() == ["detection"] * 2 + ["precision_recall"] * 3
    lines = format_report(report(real, synthetic, precision_recall=True)).splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["alpha_precision", "beta_recall", "authenticity"]
    with pytest.raises(ValueError, match="detection must be True or False, got 1"):
        report(real, synthetic, detection=1)  # type: ignore[arg-type]


def test_complete_rows_alone_choose_and_without_them_the_defaults_are_taken() -> None:
    real, synthetic, test = table(0), table(1), table(2)
    holes = real.mask(np.arange(120)[:, None] < [20, 0, 0])
    found = report(holes, synthetic, test=test, target="y", models=["decision_tree"])
    expected = utility(synthetic, test, "y", models="decision_tree", real_train=real[20:], grid="small")
    assert found[5:]["parameters"].tolist() == expected["parameters"].tolist()
    for without in (real.mask(np.arange(120)[:, None] < [119, 0, 0]), real.assign(x=np.r_[1.0, np.full(119, np.nan)])):
        found = report(without, synthetic, test=test, target="y", models=["decision_tree"])
        assert set(found[5:]["parameters"]) == {"max_depth=None, min_samples_split=2, min_samples_leaf=1"}


def test_text_has_a_line_for_each_model() -> None:
    text = format_report(report(table(0), table(1), test=table(2), target="y", models=["decision_tree", "adaboost"]))
    lines = text.splitlines()
    assert lines[0] == "Fidelity (per cent; 100: alike)"
    assert lines[8].split() == ["accuracy", "binary_f1", "macro_f1", "weighted_f1", "auroc"]
    assert [line.split()[0] for line in lines[9:-1]] == ["decision_tree", "adaboost"]
    assert all(len(line.split()) == 6 for line in lines[9:-1])
    assert lines[-1] == "  weighted_f1 weights each class by the share of the others, as the paper does"


def test_test_rows_and_target_go_together() -> None:
    for arguments in ({"test": table(2)}, {"target": "y"}):
        with pytest.raises(ValueError, match="utility needs both test and target"):
            report(table(0), table(1), **arguments)  # type: ignore[arg-type]
