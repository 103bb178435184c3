"""The registry against the paper, runs that are kept, tables against values worked out by hand, and every name once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.baselines import NoCompleteRowError
from missdiff_fast.cli import main
from missdiff_fast.config import PaperConfig
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.reproduce import measures, runner, runs
from missdiff_fast.reproduce.data import load
from missdiff_fast.reproduce.methods import make_generator, make_imputer
from missdiff_fast.reproduce.paper import paper_figures
from missdiff_fast.reproduce.registry import EXPERIMENTS, METHODS
from missdiff_fast.reproduce.runner import choose, plan, reproduce
from missdiff_fast.reproduce.runs import Context, Run, execute, key
from missdiff_fast.reproduce.scales import SCALES, Budget, cuts

PNG = b"\x89PNG\r\n\x1a\n"
# Numbers and dashes that the paper prints in each table.
PRINTED = {
    "table1": (13, 2),
    "table2": (52, 8),
    "table3": (9, 6),
    "table4": (18, 12),
    "table5": (6, 0),
    "table6": (24, 0),
    **dict.fromkeys(["table7", "table8", *(f"table{i}" for i in range(9, 14))], (13, 2)),
    "imputation": (6, 0),
}


def figure(table: str, mechanism: str, method: str, metric: str) -> float:
    rows = paper_figures().set_index(["table", "mechanism", "method", "metric"])["value"]
    return float(rows[table, mechanism, method, metric])


class TestRegistry:
    def test_it_has_every_table_and_the_figure(self) -> None:
        assert list(EXPERIMENTS) == [*(f"table{i}" for i in range(1, 14)), "figure-bn", "imputation"]

    def test_every_number_of_the_papers_tables_is_there(self) -> None:
        values = paper_figures().groupby("table")["value"]
        counts = pd.DataFrame({"numbers": values.count(), "dashes": values.size() - values.count()})
        assert {name: tuple(row) for name, row in counts.T.to_dict("list").items()} == PRINTED

    @pytest.mark.parametrize(
        ("cell", "printed"),
        [
            (("table1", "row", "missdiff-paper", "fidelity"), 80.59),
            (("table1", "independent", "stasy-mean", "fidelity"), 57.06),
            (("table2", "column", "diff-mean", "accuracy"), 79.60),
            (("table2", "column", "stasy-delete", "binary_f1"), 0.509),
            (("table2", "independent", "missdiff-paper", "weighted_f1"), 0.431),
            (("table2", "row", "stasy-mean", "auroc"), 0.731),
            (("table3", "row", "stasy-mean", "fidelity"), 82.94),
            (("table4", "independent", "diff-mean", "rmse"), 2.483),
            (("table4", "independent", "missdiff-paper", "r2"), 0.156),
            (("table5", "nmar", "diff-delete", "fidelity"), 75.72),
            (("table6", "mar", "diff-delete", "accuracy"), 69.475),
            (("table6", "nmar", "missdiff-paper", "auroc"), 0.834),
            (("table7", "independent", "stasy-delete", "fidelity"), 53.7),
            (("table8", "row", "stasy-mean", "accuracy"), 60.96),
            (("table9", "independent", "missdiff-paper", "accuracy"), 80.68),
            (("table10", "column", "stasy-mean", "accuracy"), 42.24),
            (("table11", "independent", "stasy-delete", "accuracy"), 77.13),
            (("table12", "independent", "stasy-mean", "accuracy"), 37.59),
            (("table13", "column", "diff-delete", "accuracy"), 76.33),
            (("imputation", "column", "missdiff-paper", "rmse"), 0.087),
        ],
    )
    def test_some_of_them(self, cell: tuple[str, str, str, str], printed: float) -> None:
        assert figure(*cell) == printed

    def test_dashes_are_where_deletion_leaves_nothing(self) -> None:
        figures = paper_figures()
        dashes = figures[figures["value"].isna()]
        assert set(dashes["method"]) == {"diff-delete", "stasy-delete"}
        assert set(dashes.loc[~dashes["table"].isin(["table3", "table4"]), "mechanism"]) == {"row"}

    def test_each_number_has_its_place(self) -> None:
        for row in paper_figures().itertuples():
            experiment = EXPERIMENTS[str(row.table)]
            assert row.mechanism in experiment.mechanisms
            assert row.method in experiment.methods
            assert row.metric in [measure.metric for measure in experiment.measures]
            assert str(row.label) in experiment.label.split(", ")

    def test_stasy_has_its_epochs(self) -> None:
        epochs = {name: one.stasy_epochs for name, one in EXPERIMENTS.items() if "stasy-mean" in one.methods}
        same = {"table3", "table4", "table7", "table8"}
        assert epochs == {name: 250 if name in same else 1000 for name in epochs}


class TestPlan:
    def test_the_full_scale_is_the_papers(self) -> None:
        full = SCALES["full"]
        assert full.repetitions == 3
        assert full.census == Budget(epochs=250, diffusion_steps=100, channels=64, stasy_finetune_epochs=50)
        assert full.mimic4ed.diffusion_steps == 150
        assert full.imputation.draws == 100

    def test_tables_share_their_runs(self) -> None:
        plans = {name: set(plan(one, SCALES["full"])) for name, one in EXPERIMENTS.items()}
        assert len(plans["table1"]) == 3 * 6 * 3
        for name in ("table2", *(f"table{i}" for i in range(9, 14))):
            assert plans[name] == plans["table1"]
        assert plans["table3"] == plans["table4"]
        assert plans["table5"] == plans["table6"]
        assert {run.method for run in plans["table7"] - plans["table1"]} == {"stasy-delete", "stasy-mean"}
        assert len(plans["figure-bn"]) == 3 * 9 * 4 * 3

    def test_methods_are_chosen(self) -> None:
        chosen = choose(["all"], ["gain", "diff-mean"])
        assert chosen["imputation"].methods == ("gain",)
        assert chosen["table5"].methods == ("diff-mean",)
        assert set(chosen) == set(EXPERIMENTS)

    def test_a_choice_of_imputers_still_fills_holes(self) -> None:
        for name, one in choose(["all"], ["mean-mode", "missdiff-paper"]).items():
            assert {run.imputation for run in plan(one, SCALES["smoke"])} == {name == "imputation"}

    def test_no_method_stands_in_for_another(self) -> None:
        table = pd.DataFrame({"x": [0.0, 1.0]})
        with pytest.raises(ValueError, match="mice draws no rows"):
            make_generator("mice", {}, table, 0, "cpu")
        with pytest.raises(ValueError, match="diff-mean fills no holes"):
            make_imputer("diff-mean", {}, 2, 0, "cpu")

    def test_cuts_are_told(self) -> None:
        assert cuts(SCALES["short"], SCALES["full"])["repetitions"] == "repetitions: 1 (full: 3)"
        told = cuts(SCALES["short"].census, SCALES["full"].census)
        assert told["max_steps"] == "steps of the paper's network at most: 500 (full: no limit)"
        assert not {"train_rows", "test_rows", "default_steps"} & set(told)
        assert cuts(SCALES["full"], SCALES["full"]) == {}

    @pytest.mark.parametrize("change", ["seed", "device", "method", "ratio", "budget", "version", "file", "preset"])
    def test_a_run_is_known_by_its_settings(self, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
        run, context = Run(False, "mimic4ed", "row", 0.2, "diff-mean", 0), Context(SCALES["short"])
        before = key(context.settings(run))
        assert before == key(json.loads(json.dumps(context.settings(run))))
        if change == "version":
            monkeypatch.setattr(runs, "__version__", "99")
        if change == "preset":
            monkeypatch.setattr(runs, "preset", lambda _: PaperConfig(draws=7))
        run = {
            "method": Run(False, "mimic4ed", "row", 0.2, "missdiff-paper", 0),
            "ratio": Run(False, "mimic4ed", "row", 0.3, "diff-mean", 0),
        }.get(change, run)
        context = {
            "seed": Context(SCALES["short"], seed=1),
            "device": Context(SCALES["short"], device="cuda"),
            "budget": Context(SCALES["full"]),
            "file": Context(SCALES["short"], file_digest="abc"),
        }.get(change, context)
        assert key(context.settings(run)) != before

    def test_the_number_of_a_card_is_kept_and_changes_no_result(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []

        def impute(data: Any, settings: Any, device: str) -> tuple[dict[str, float], dict[str, float]]:
            seen.append(device)
            return {}, {"fit": 0.0, "end": 1.0}

        monkeypatch.setattr(runs, "_impute", impute)
        monkeypatch.setattr(Context, "data", lambda self, run: None)
        run = Run(True, "census", "row", 0.2, "missdiff-default", 0)
        first, second = Context(SCALES["short"], device="cuda:0"), Context(SCALES["short"], device="cuda:1")
        assert key(first.settings(run)) == key(second.settings(run))
        runs.execute(run, second)
        assert seen == ["cuda:1"]

    def test_fewer_epochs_of_stasy_are_cut_in_proportion(self) -> None:
        table = pd.DataFrame({"x": np.arange(640.0), "y": ["a", "b"] * 320})  # 10 steps an epoch
        context = Context(SCALES["short"])
        for epochs, cut in ((1000, 150), (250, 37)):
            settings = context.settings(Run(False, "census", "row", 0.2, "stasy-mean", 0, epochs))["method_settings"]
            assert make_generator("stasy-mean", settings, table, 0, "cpu").epochs == cut

    def test_deletion_gets_the_epochs_of_the_rows_that_are_left(self) -> None:
        table = pd.DataFrame({"x": np.arange(640.0), "y": ["a", None] * 320})
        settings = {"epochs": 2, "max_steps": None, "diffusion_steps": 7, "channels": 16}
        delete = make_generator("diff-delete", settings, table, 0, "cpu")
        mean = make_generator("diff-mean", settings, table, 0, "cpu")
        assert (delete.model_settings["steps"], mean.model_settings["steps"]) == (10, 20)
        assert delete.model_settings["settings"] == {"diffusion.steps": 7, "network.channels": 16}
        assert delete.preset == mean.preset == "paper"

    def test_settings_reach_the_imputers(self) -> None:
        context = Context(SCALES["smoke"])
        made = {}
        for method in EXPERIMENTS["imputation"].methods:
            settings = context.settings(Run(True, "census", "column", 0.2, method, 0))["method_settings"]
            made[method] = make_imputer(method, settings, 200, 0, "cpu")
        assert made["missforest"].num_trees == 3
        assert made["mice"].max_rounds == made["missforest"].max_rounds == 1
        assert made["gain"].iterations == 10
        assert (made["csdi-t"].epochs, made["csdi-t"].steps, made["csdi-t"].num_draws) == (1, 3, 2)
        assert (made["missdiff-paper"].preset, made["missdiff-paper"].steps) == ("paper", 3)
        assert made["missdiff-paper"].settings == {"diffusion.steps": 3, "network.channels": 8, "draws": 2}
        assert (made["missdiff-default"].preset, made["missdiff-default"].steps) == ("default", 5)
        assert made["missdiff-default"].refine == 0
        assert type(made["mean-mode"]).__name__ == "MeanModeImputer"


class TestMeasures:
    def test_a_target_of_one_class_is_what_any_model_predicts(self) -> None:
        data = load("census", 200, 100, 2)
        synthetic = data.train.assign(income="<=50K")
        found = measures.synthesis_measures(data, synthetic, grid="small", all_pairs=True, seed=0)
        share = float((data.test["income"] == "<=50K").mean())
        for model in data.models:
            assert found[f"{model}.accuracy"] == pytest.approx(share)
            assert found[f"{model}.auroc"] == 0.5
            assert found[f"{model}.binary_f1"] == 0
        rich = float((pd.concat([data.train, data.test])["income"] == ">50K").mean())
        assert found["mlp.weighted_f1"] == pytest.approx(rich * 2 * share / (1 + share))
        assert found["fidelity.all_pairs"] <= 100

    def test_a_target_of_one_number_is_its_constant(self) -> None:
        data = load("mimic4ed", 200, 100, 6)
        found = measures.synthesis_measures(
            data, data.complete()[0].assign(ed_los=2.0), grid=None, all_pairs=False, seed=0
        )
        truth = data.test["ed_los"].to_numpy(float)
        assert found["xgboost.rmse"] == pytest.approx(math.sqrt(((truth - 2) ** 2).mean()))
        assert found["xgboost.log_rmse"] == pytest.approx(math.sqrt(((np.log1p(truth) - np.log(3)) ** 2).mean()))
        assert found["xgboost.r2"] < 0

    def test_imputation_is_measured_in_ranges_of_all_rows(self) -> None:
        data = load("bayesian-network", 4, 2)
        train = pd.DataFrame({"C1": [0.0, 10.0], "D1": ["0", "1"]})
        test = pd.DataFrame({"C1": [4.0, 5.0], "D1": ["0", "1"]})
        filled = pd.DataFrame({"C1": [5.0, 5.0], "D1": ["1", "1"]})
        observed = np.array([[False, False], [True, True]])
        one = measures.imputation_measures(
            type(data)("x", train, test, ("C1",), "D1", (), ""), filled, observed, train, test
        )
        assert one == pytest.approx({"rmse": 0.1, "mae": 0.1, "category_error": 100})

    def test_categories_that_training_does_not_show_are_hidden(self) -> None:
        data = load("bayesian-network", 4, 2)
        train = pd.DataFrame({"C1": [0.0, 10.0], "D1": ["0", None]})
        test = pd.DataFrame({"C1": [4.0, 5.0], "D1": ["0", "1"]})
        known = runs._known(test, train, data)
        assert known["D1"].isna().tolist() == [False, True]
        assert known["C1"].tolist() == [4.0, 5.0]

    def test_holes_of_the_real_rows_are_filled_with_training_medians(self) -> None:
        data = load("mimic4ed", 400, 300)
        train, test = data.complete()
        assert data.train["triage_pain"].isna().any()
        assert not train.isna().to_numpy().any()
        holes = data.test["triage_pain"].isna()
        assert (test.loc[holes, "triage_pain"] == data.train["triage_pain"].median()).all()


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Runs in place of the real ones: fidelity 60 and 64 in the first two repetitions; Diff-mean always fails."""
    done: list[Run] = []

    def fake(run: Run, context: Context) -> dict[str, Any]:
        done.append(run)
        if run.method == "diff-mean":
            raise FloatingPointError("the loss is nan:\ntraining diverged")
        if run.method == "diff-delete":
            raise NoCompleteRowError("no row is complete")
        metrics = {"fidelity.overall": 60.0 + 4 * run.repetition, "fidelity.shapes": None, "xgboost.accuracy": 0.75}
        return {"metrics": metrics, "seconds": {"fit": 2.0, "draw": 1.0, "measure": 0.5}}

    monkeypatch.setattr(runner, "execute", fake)
    return done


def call(folder: Path, line: str) -> int:
    return main([*f"reproduce {line} --scale smoke -o".split(), str(folder)])


class TestTables:
    def test_csv(self, faked: list[Run], tmp_path: Path) -> None:
        assert call(tmp_path, "table5 --repetitions 2") == 1
        table = pd.read_csv(tmp_path / "table5.csv")
        assert list(table.columns) == [
            *("mechanism", "ratio", "method", "metric", "mean", "std", "repetitions", "failed", "status", "paper")
        ]
        rows = table[table["metric"] == "fidelity"].set_index(["mechanism", "method"])
        assert len(rows) == 8
        ours = rows.loc[("mar", "missdiff-paper")]
        assert ours[["ratio", "mean", "repetitions", "failed", "status", "paper"]].tolist() == [
            *(0.2, 62.0, 2, 0, "done", 77.45)
        ]
        assert ours["std"] == pytest.approx(math.sqrt(8))
        assert math.isnan(rows.loc[("mar", "missdiff-default"), "paper"])
        assert rows.loc[("nmar", "diff-delete"), ["repetitions", "failed", "status"]].tolist() == [
            *(0, 0, "not applicable")
        ]
        assert rows.loc[("nmar", "diff-mean"), ["repetitions", "failed", "status"]].tolist() == [0, 2, "failed"]
        assert math.isnan(rows.loc[("nmar", "diff-mean"), "mean"])

    def test_markdown(self, faked: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert call(tmp_path, "table5 --repetitions 2") == 1
        text = (tmp_path / "table5.md").read_text()
        head = "|  | MissDiff (paper's preset) | Diff-delete | Diff-mean | MissDiff (default preset) |"
        row = "| NMAR | 62.00 ± 2.83 (77.88) | - (75.72) | failed (76.97) | 62.00 ± 2.83 |"
        assert f"## Fidelity, %\n\n{head}\n| --- | --- | --- | --- | --- |\n| MAR | " in text
        assert f"{row}\n" in text
        assert "| NMAR | undefined | - | failed | undefined |" in text  # shapes, which are NaN in every run
        assert "trends" not in text.partition("## Notes")[0]  # no run has measured it
        assert "Scale: **smoke**; 2 repetitions, first seed 0." in text
        assert "- census, nmar 0.2, Diff-mean, repetition 2: FloatingPointError: the loss is nan: training" in text
        assert "steps of the paper's network at most: 3 (full: no limit)" in text
        assert "| MissDiff (paper's preset) | 2.0 | 1.0 | 0.5 |" in text
        assert "missdiff_fast 0." in text
        out, err = capsys.readouterr()
        assert row in out
        assert "## Notes" not in out
        assert str(tmp_path / "table5.csv") in out
        assert err == "missdiff: 4 of 16 runs failed; the tables name them, and the next call repeats them\n"

    def test_shares_become_per_cent(self, faked: list[Run], tmp_path: Path) -> None:
        call(tmp_path, "table8 --methods stasy-mean")
        assert "| Row missing | 75.00 (60.96) |" in (tmp_path / "table8.md").read_text()

    def test_a_failure_beside_others_is_counted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fake(run: Run, context: Context) -> dict[str, Any]:
            if run.repetition == 1:
                raise MemoryError
            return {"metrics": {"fidelity.overall": 60.0 + 4 * run.repetition}, "seconds": {}}

        monkeypatch.setattr(runner, "execute", fake)
        assert call(tmp_path, "table5 --repetitions 3 --methods diff-mean") == 1
        assert "| MAR | 64.00 ± 5.66, 1 failed (76.08) |" in (tmp_path / "table5.md").read_text()

    def test_the_figure_has_a_row_for_each_ratio(self, faked: list[Run], tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        call(tmp_path, "figure-bn --methods missdiff-paper diff-delete")
        table = pd.read_csv(tmp_path / "figure-bn.csv")
        assert table["ratio"].unique().tolist() == [0.3, 0.6]
        assert "| Row missing, 0.6 | 60.00 | - |" in (tmp_path / "figure-bn.md").read_text()
        assert (tmp_path / "figure-bn.png").read_bytes().startswith(PNG)


class TestKeptRuns:
    def test_a_second_call_runs_nothing(self, faked: list[Run], tmp_path: Path) -> None:
        assert call(tmp_path, "table1 --methods missdiff-paper diff-delete") == 0
        assert len(faked) == 6
        before = (tmp_path / "table1.md").read_text()
        assert call(tmp_path, "table1 --methods missdiff-paper diff-delete") == 0
        assert call(tmp_path, "table2 --methods missdiff-paper") == 0
        assert len(faked) == 6
        assert (tmp_path / "table1.md").read_text() == before

    def test_what_is_asked_for_beyond_is_run(self, faked: list[Run], tmp_path: Path) -> None:
        call(tmp_path, "table1 --methods missdiff-paper")
        call(tmp_path, "table1 --methods missdiff-paper --repetitions 2")
        assert [run.repetition for run in faked] == [0, 0, 0, 1, 1, 1]
        call(tmp_path, "table1 --methods missdiff-paper --seed 1")  # the second repetition's seed
        assert len(faked) == 6

    def test_failed_runs_are_tried_again(self, faked: list[Run], tmp_path: Path) -> None:
        for count in (2, 4):
            assert call(tmp_path, "table5 --methods diff-mean") == 1
            assert len(faked) == count

    def test_an_interruption_loses_the_run_in_progress_alone(
        self, faked: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fake = runner.execute

        def stop(run: Run, context: Context) -> dict[str, Any]:
            if len(faked) == 2:
                raise KeyboardInterrupt
            return fake(run, context)

        monkeypatch.setattr(runner, "execute", stop)
        assert call(tmp_path, "table1 --methods missdiff-paper") == 130
        assert capsys.readouterr().err == "missdiff: interrupted: 2 of 3 runs are kept; repeat it to go on\n"
        assert len(list((tmp_path / "runs").iterdir())) == 2
        assert not (tmp_path / "table1.md").exists()
        monkeypatch.setattr(runner, "execute", fake)
        assert call(tmp_path, "table1 --methods missdiff-paper") == 0
        assert [run.mechanism for run in faked] == ["row", "column", "independent"]

    def test_a_damaged_file_is_named(
        self, faked: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call(tmp_path, "table1 --methods missdiff-paper")
        path = next((tmp_path / "runs").iterdir())
        whole = path.read_text()
        for text in (whole[:40], "{}", "[]", '{"settings": {}, "status": "done"}'):
            path.write_text(text)
            assert call(tmp_path, "table1 --methods missdiff-paper") == 2
            assert f"{path} is damaged" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "changes",
        [
            *({"status": status} for status in ("banana", None, ["done"], "failed", "not applicable")),
            *({"metrics": metrics} for metrics in ({}, None, [60.0], {"other": 1.0}, 60.0)),
            *(
                {"metrics": {"fidelity.overall": value}}
                for value in ("60", True, [60], math.nan, math.inf, 10**400, {"value": 60})
            ),
            *({"seconds": seconds} for seconds in (None, {}, {"fit": 1.0}, {"fit": 1, "draw": "1", "measure": 1}, 3.5)),
            *({"total_seconds": seconds} for seconds in (None, "2", math.nan, True)),
            *({"environment": where} for where in (None, {}, [], {"machine": "m", "versions": None, "commit": "c"})),
            {"environment": {"machine": "\ud800", "versions": "v", "commit": "c"}},
            {"finished": None},
            {"status": "failed", "metrics": {}, "message": None},
        ],
        ids=repr,
    )
    def test_a_damaged_outcome_is_named(
        self, changes: dict[str, Any], faked: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call(tmp_path, "table5 --methods missdiff-paper")
        path = next((tmp_path / "runs").iterdir())
        whole = json.loads(path.read_text())
        capsys.readouterr()
        for record in (whole | changes, {name: value for name, value in whole.items() if name not in changes}):
            path.write_text(json.dumps(record))
            assert call(tmp_path, "table5 --methods missdiff-paper") == 2
            out, err = capsys.readouterr()
            assert err.startswith(f"missdiff: error: {path} is damaged (")
            assert err.endswith("): delete it, and the run is done again\n")
            assert (out, err.count("\n")) == ("", 1)

    def test_a_file_of_brackets_is_damaged(
        self, faked: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        call(tmp_path, "table5 --methods missdiff-paper")
        path = next((tmp_path / "runs").iterdir())
        path.write_text("[" * 100_000)
        assert call(tmp_path, "table5 --methods missdiff-paper") == 2
        assert f"{path} is damaged" in capsys.readouterr().err

    def test_progress_is_told_on_a_terminal(
        self,
        faked: list[Run],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        call(tmp_path, "table5 --methods missdiff-paper diff-mean")
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 5
        assert lines[0].startswith("1/4 census, mar 0.2, MissDiff (paper's preset): done in ")
        assert lines[0].endswith(" left")
        assert "Diff-mean: failed (FloatingPointError: the loss is nan: training diverged) in " in lines[3]
        call(tmp_path, "table5 --methods missdiff-paper")
        assert capsys.readouterr().err == "2 of 2 runs were done before\n"
        call(tmp_path / "other", "table5 --methods missdiff-paper --quiet")
        assert capsys.readouterr().err == ""


class TestRefusals:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("table14", "unknown name 'table14'; it is one of table1, "),
            ("table1 --scale huge", "unknown scale 'huge'; it is one of smoke, short, full"),
            ("table1 --methods missdif", "unknown method 'missdif'; it is one of missdiff-paper, "),
            ("table1 --methods mice", "table1 has no method mice; it has missdiff-paper, "),
            ("table1 --repetitions 0", "repetitions must be"),
            ("table1 --seed -1", "--seed must lie in"),
            ("table1 --seed 4294967296", "--seed must lie in [0, 4294967295], got 4294967296"),
            ("table1 --device tpu", "'tpu'"),
            ("table3 --data no/such/file.csv", "no/such/file.csv: there is no such file"),
        ],
    )
    def test_one_line_and_code_2(
        self, line: str, message: str, tmp_path: Path, faked: list[Run], capsys: pytest.CaptureFixture[str]
    ) -> None:
        line = line if "--scale" in line else f"{line} --scale smoke"
        assert main([*f"reproduce {line} -o".split(), str(tmp_path / "out")]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
        assert not faked
        assert not (tmp_path / "out").exists()

    def test_a_file_that_is_not_mimic4ed(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        assert call(tmp_path / "out", f"table3 --data {tmp_path}/other.csv") == 2
        assert "other.csv is not the benchmark's master_dataset.csv" in capsys.readouterr().err
        assert call(tmp_path / "out", f"table1 --data {tmp_path}/other.csv") == 2
        assert "is for the tables of MIMIC4ED, table3 and table4" in capsys.readouterr().err

    @pytest.mark.parametrize("below", ["", "/below"])
    def test_a_folder_that_cannot_be(
        self, below: str, tmp_path: Path, faked: list[Run], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").touch()
        assert main(f"reproduce table1 --scale smoke -o {tmp_path}/file{below}".split()) == 2
        err = capsys.readouterr().err
        assert f"{tmp_path}/file" in err
        assert err.count("\n") == 1
        assert not faked

    def test_a_missing_package_is_told_before_any_work(
        self, tmp_path: Path, faked: list[Run], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
        assert call(tmp_path / "out", "table1") == 2
        assert "pip install 'missdiff_fast[evaluate]'" in capsys.readouterr().err
        assert not faked


def test_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "list"]) == 0
    out = capsys.readouterr().out
    assert "table2      Utility on Census by XGBoost, MCAR (Tables 3 and 9)\n" in out
    assert all(name in out for name in (*EXPERIMENTS, *METHODS))


def test_the_same_run_again_gives_the_same_figures() -> None:
    context = Context(SCALES["smoke"])
    run = Run(False, "bayesian-network", "column", 0.3, "missdiff-paper", 0)
    assert execute(run, context)["metrics"] == execute(run, context)["metrics"]


def test_mimic4ed_from_its_file(tmp_path: Path) -> None:
    rows = simulate_mimic4ed(150, random_state=0)
    for name in ("triage_temperature", "ed_temperature_last"):
        rows[name] = rows[name] * 9 / 5 + 32
    rows["ed_los"] = pd.to_timedelta(rows["ed_los"], unit="h").astype(str)
    rows.to_csv(tmp_path / "master_dataset.csv", index=False)
    table, failed, _ = reproduce(
        ["table4"], tmp_path, scale="smoke", methods=["stasy-mean"], data=tmp_path / "master_dataset.csv"
    )
    assert failed == 0
    assert table["table4"]["mean"].notna().all()
    text = (tmp_path / "table4.md").read_text()
    assert "MIMIC4ED: 120 training and 30 test rows, 14 columns" in text
    assert "simulated" not in text.lower()


@pytest.fixture(scope="module")
def smoked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder for all names, so that runs are shared between them."""
    for package in ("matplotlib", "sdmetrics", "sklearn", "xgboost"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("reproduce")

    def go(name: str) -> Path:
        assert call(folder, name) == 0
        return folder

    return go


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_smoke(name: str, smoked: Callable[[str], Path]) -> None:
    folder = smoked(name)
    table, experiment = pd.read_csv(folder / f"{name}.csv"), EXPERIMENTS[name]
    main_metric = table[table["metric"] == experiment.measures[0].metric]
    bin_index = 2 if name == "figure-bn" else 1
    assert len(main_metric) == len(experiment.mechanisms) * len(experiment.methods) * bin_index
    dashes = main_metric[main_metric["status"] == "not applicable"]
    assert set(dashes["method"]) <= {"diff-delete", "stasy-delete"}
    if experiment.dataset == "census" and "row" in experiment.mechanisms:
        assert set(zip(dashes["mechanism"], dashes["method"], strict=True)) >= {
            *(("row", "diff-delete"), ("row", "stasy-delete"))
        }
    done = main_metric[main_metric["status"] == "done"]
    assert len(done) + len(dashes) == len(main_metric)
    assert done["mean"].notna().all()
    text = (folder / f"{name}.md").read_text()
    assert "Scale: **smoke**" in text
    assert "the figures below mean nothing" in text
    assert ("**simulated**" in text) == ("SIMULATED" in text) == (experiment.dataset == "mimic4ed")
    if name == "figure-bn":
        assert (folder / "figure-bn.png").read_bytes().startswith(PNG)


def test_a_seed_of_numpys_type_names_the_same_runs(tmp_path: Path, faked: list[Run]) -> None:
    for seed in (np.int64(3), 3):
        reproduce(["table1"], tmp_path, scale="smoke", methods=["missdiff-paper"], seed=seed, verbose=False)  # type: ignore[arg-type]
    assert len(faked) == 3
