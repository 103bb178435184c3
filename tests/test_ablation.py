"""bench/ablation.py: every change trains, does what it says, and a run that is done is not done again."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks import bench_on_the_path, load  # noqa: F401

from missdiff_fast import MissDiff
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.objective import draw_states
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY

pytest.importorskip("sdmetrics")
pytest.importorskip("xgboost")

B, J = 2000, 6
OBSERVED = torch.rand(B, J, generator=torch.Generator().manual_seed(1)) < 0.7
UNIFORM = torch.rand(B, J + 2, generator=torch.Generator().manual_seed(0))


def _table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=400)
    table = pd.DataFrame({"x": x, "y": x + random.normal(size=400), "z": np.where(x > 0, "a", "b")})
    return table.mask(random.random(table.shape) < 0.3)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_copied_masks_are_what_the_row_before_lacks(share: float) -> None:
    config = ObjectiveConfig(clean_share=0.0, hidden_share=0.0, impute_share=1.0)
    states = load("variants").copied_states(UNIFORM, OBSERVED, OBSERVED, config, share=share)
    lacked = OBSERVED & ~OBSERVED.roll(1, 0)
    copied = ((states == HIDDEN) == (lacked | ~OBSERVED)).all(1) & lacked.any(1)
    by_chance = 1 / (J - 2)  # a uniform fraction hides the same cells now and then
    found = float(copied[lacked.any(1)].float().mean())
    assert share - 0.05 <= found <= share + by_chance
    plain = draw_states(UNIFORM, OBSERVED, OBSERVED, config)
    assert torch.equal(states, plain) == (share == 0)


def test_copied_masks_of_rows_with_clean_columns_are_noisy() -> None:
    config = ObjectiveConfig(clean_share=1.0, hidden_share=0.0, impute_share=0.0)
    states = load("variants").copied_states(UNIFORM, OBSERVED, OBSERVED, config, share=1.0)
    lacked = OBSERVED & ~OBSERVED.roll(1, 0)
    some = lacked.any(1)
    assert torch.equal((states == NOISY)[some], lacked[some])
    assert torch.equal((states == CLEAN)[some], (OBSERVED & ~lacked)[some])


def test_paired_rows_show_two_columns() -> None:
    config = ObjectiveConfig(clean_share=0.0, hidden_share=0.0, impute_share=0.0)
    states = load("variants").paired_states(UNIFORM, OBSERVED, OBSERVED, config, share=1.0)
    several = OBSERVED.sum(1) >= 2
    assert torch.equal((states == NOISY).sum(1)[several], torch.full((int(several.sum()),), 2))


def test_orthogonal_matrices_have_singular_values_of_about_1() -> None:
    matrices = torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(load("muon").orthogonal(matrices))
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3


def test_every_change_trains_to_other_weights() -> None:
    variants, drawn = load("variants").VARIANTS, {}
    for name, variant in variants.items():
        small = {"network.width": 16, "solver.steps": 3, "calibration.rounds": 1, "blend.rows_per_feature": 0}
        settings = {"training.steps": 130, "training.batch_size": 32, **small, **variant.settings}
        settings.pop("training.effort", None)
        with variant.change():
            drawn[name] = MissDiff(settings=settings, random_state=0, verbose=False).fit(_table())
    default = drawn["default"]._method.weights()
    for name in ("copy_half", "copy_all", "ema_short", "ema_long", "muon", "pairs", "no_refinement"):
        weights = drawn[name]._method.weights()
        assert not all(torch.equal(weights[key], default[key]) for key in default if key in weights), name


def test_filled_cells_are_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    variants, fills = load("variants"), []
    plain = variants.fill
    monkeypatch.setattr(variants, "fill", lambda *arguments: fills.append(arguments) or plain(*arguments))
    settings = {"training.steps": 2000, "training.batch_size": 64, "network.width": 16, "blend.rows_per_feature": 0}
    with variants.fresh_fills(4):
        MissDiff(settings=settings, random_state=0, verbose=False).fit(_table())
    assert len(fills) == 3, "the first is the fit's own"


def test_a_run_that_is_done_is_not_done_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ablation, calls = load("ablation"), []
    plain = ablation.run

    def counted(**key: object) -> dict[str, object]:
        calls.append(key["variant"])
        return plain(**key)

    monkeypatch.setattr(ablation, "run", counted)
    options = ["--conditions", "gaussian_80", "--variants", "default", "no_refinement", "--effort", "0.02"]
    monkeypatch.setattr(sys, "argv", ["ablation", *options, "--seeds", "0", "--out", str(tmp_path)])
    ablation.main()
    ablation.main()
    assert calls == ["default", "no_refinement"]
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert runs["error"].isna().all()
    assert runs[["overall", "rmse", "fit_cpu_s"]].notna().all(axis=None)
    assert runs["auroc"].isna().all(), "the table has no class"
    assert len(ablation.page(runs, 4000, 0.02)) == 2


def _runs(*of: tuple[str, int, float, int, float]) -> pd.DataFrame:
    """Finished runs of variants, rows, efforts and seeds, with their fidelities."""
    names = ["variant", "rows", "effort", "seed", "overall"]
    runs = pd.DataFrame(of, columns=names).assign(condition="mar_20", missing=0.2, threads=1, commit="abc1234")
    machine = '{"processor": "one", "cores": 2, "simd": "avx2"}'
    versions = '{"python": "3.11.7", "torch": "2.9", "missdiff_fast": "0.1.0"}'
    return runs.assign(machine=machine, versions=versions).reindex(columns=load("ablation").COLUMNS)


def test_a_page_is_of_one_number_of_rows_and_one_effort() -> None:
    of_half = [("default", 4000, 0.5, 0, 90.0), ("copy_half", 4000, 0.5, 0, 91.0)]
    others = [
        (name, rows, effort, 0, 50.0) for name in ("default", "copy_half") for rows, effort in ((4000, 1.0), (9, 0.5))
    ]
    page = load("ablation").page
    assert page(_runs(*of_half, *others), 4000, 0.5) == page(_runs(*of_half), 4000, 0.5)
    assert "| 1 | +1.00 + |" in page(_runs(*of_half, *others), 4000, 0.5)[1]


def test_a_page_without_the_default_shows_means() -> None:
    page = load("ablation").page(_runs(("copy_half", 4000, 0.5, 0, 91.0), ("copy_half", 4000, 0.5, 1, 92.0)), 4000, 0.5)
    assert "| 2 | 91.50 |" in page[1]


def test_a_variant_is_compared_at_the_seeds_that_the_default_has() -> None:
    default, other = ("default", 4000, 0.5, 0, 90.0), ("copy_half", 4000, 0.5, 1, 91.0)
    assert "| 1 | 91.00 |" in load("ablation").page(_runs(default, other), 4000, 0.5)[1]
    both = _runs(default, other, ("copy_half", 4000, 0.5, 0, 92.0))
    assert "| 1 | +2.00 + |" in load("ablation").page(both, 4000, 0.5)[1]


def test_a_page_names_the_versions_that_ran() -> None:
    runs = _runs(("default", 4000, 0.5, 0, 90.0), ("default", 4000, 0.5, 1, 90.0), ("default", 4000, 0.5, 2, 90.0))
    runs["commit"] = ["abc1234", "def5678+", "abc1234"]
    assert load("ablation").described(runs) == (
        "one, 2 cores, 1 threads, SIMD avx2; Python 3.11.7, torch 2.9, missdiff_fast 0.1.0 at abc1234, def5678+"
    )
    runs.loc[2, "threads"] = 2
    assert load("ablation").described(runs).count("\n") == 1


def test_rare_columns_keep_as_many_cells_as_they_say() -> None:
    ablation = load("ablation")
    train, _, holes, observed, _ = ablation.CONDITIONS["rare"](1000, 0)
    assert {name: int(holes[name].notna().sum()) for name in ablation.RARE} == {
        name: round(1000 * share) for name, share in ablation.RARE.items()
    }
    assert holes.notna().equals(pd.DataFrame(observed & train.notna(), columns=train.columns))
