"""The five ways of hiding cells: exact counts, probabilities worked by hand, and frequencies over 200 seeds."""

from __future__ import annotations

import hashlib

import hypothesis
import numpy as np
import pandas as pd
import pytest
from frames import TEXT
from hypothesis import strategies as st
from hypothesis.extra import pandas as hpd

from missdiff_fast.datasets import census_split
from missdiff_fast.missingness import MECHANISMS, hide, missing_probability, observed_mask
from missdiff_fast.missingness.logit import fit_intercept, read_input, sigmoid
from missdiff_fast.missingness.mechanisms import floor_share

LOGISTIC = ["mar", "nmar"]
SEEDS = 200
pytestmark = pytest.mark.filterwarnings("ignore:mechanism .* hides no cell")


def mixed(rows: int = 100) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "whole": random.integers(0, 50, rows),
            "real": random.normal(size=rows),
            "flag": random.random(rows) < 0.3,
            "word": random.choice(list("abcde"), rows),
            "when": pd.date_range("2024-01-01", periods=rows),
            "kind": pd.Categorical(random.choice(["u", "v"], rows), ["v", "u", "never"]),
            "count": pd.array(random.poisson(2, rows), dtype="Int64"),
            "skewed": np.exp(2 * random.normal(size=rows)),
            "span": pd.to_timedelta(random.integers(0, 99, rows), unit="h"),
            "code": random.choice([10, 20, 30], rows).astype(str),
        },
        index=range(7, 7 + rows),
    )


class TestCompletelyAtRandom:
    @pytest.mark.parametrize(("ratio", "count"), [(0.05, 0), (0.2, 2), (0.29, 2), (0.3, 3), (0.99, 9)])
    def test_row_hides_floor_of_d_alpha_cells_of_each_row(self, ratio: float, count: int) -> None:
        assert (~observed_mask(mixed(), "row", ratio, 0)).sum(1).tolist() == [count] * 100

    @pytest.mark.parametrize(("ratio", "count"), [(0.005, 0), (0.2, 20), (0.255, 25), (0.29, 29), (0.999, 99)])
    def test_column_hides_floor_of_n_alpha_cells_of_each_column(self, ratio: float, count: int) -> None:
        assert (~observed_mask(mixed(), "column", ratio, 0)).sum(0).tolist() == [count] * 10

    def test_a_floor_is_not_spoilt_by_rounding(self) -> None:
        assert all(floor_share(count, k / 100) == count * k // 100 for count in range(1, 400) for k in range(1, 100))
        assert floor_share(3, 1 / 3) == 1
        assert floor_share(10**9, 0.123456789) == 123456789

    @pytest.mark.parametrize(
        ("mechanism", "digest"),
        [("row", "7ffd464a92e08d07"), ("column", "cd3708d26c71ac41"), ("independent", "30a277f6830c5cdb")],
    )
    def test_a_seed_hides_the_same_cells_for_ever(self, mechanism: str, digest: str) -> None:
        observed = observed_mask(census_split(0)[0], mechanism, 0.2, 0)  # type: ignore[arg-type]
        assert hashlib.sha256(np.packbits(observed).tobytes()).hexdigest()[:16] == digest

    def test_row_hides_each_column_equally_often(self) -> None:
        hidden = sum((~observed_mask(mixed(20), "row", 0.3, seed)).sum(0) for seed in range(SEEDS))
        # Hypergeometric: of 4,000 rows, each hides 3 of 10 columns; (J - 1) / J as the counts have a fixed sum.
        chi2 = ((hidden - 1200) ** 2 / (4000 * 0.3 * 0.7)).sum() * 9 / 10
        assert hidden.sum() == 12_000
        assert 0.9 < chi2 < 38  # chi-square of 9: 0.0005 and 0.99998

    def test_column_hides_each_row_equally_often(self) -> None:
        hidden = sum((~observed_mask(mixed(20), "column", 0.3, seed)).sum(1) for seed in range(SEEDS))
        chi2 = ((hidden - 600) ** 2 / (2000 * 0.3 * 0.7)).sum() * 19 / 20
        assert hidden.sum() == 12_000
        assert 4 < chi2 < 58  # chi-square of 19: 0.0001 and 0.99999

    def test_independent_cells_are_independent(self) -> None:
        hidden = np.concatenate([~observed_mask(mixed(50), "independent", 0.2, seed) for seed in range(SEEDS)])
        z = (hidden.sum(0) - 2000) / np.sqrt(10_000 * 0.2 * 0.8)
        assert np.abs(z).max() < 4
        pairs = np.corrcoef(hidden.T)[np.triu_indices(10, 1)]
        assert np.abs(pairs).max() * 100 < 4  # a correlation of 10,000 rows has a standard error of 1/100


class TestLogistic:
    def test_two_kinds_of_rows_worked_by_hand(self) -> None:
        # One column is the input: 0 0 1 1, standardised -+sqrt(3)/2, which is also the logit but for its sign.
        table = pd.DataFrame({"x": [0, 0, 1, 1], "same": 5})
        p = missing_probability(table, "mar", 0.25, 0)
        assert p[:, 0].tolist() == [0.0] * 4
        low = 1 / (1 + np.exp(np.sqrt(3) / 2))
        assert sorted(p[:, 1]) == pytest.approx([low, low, 1 - low, 1 - low], abs=1e-6)

    def test_another_rate_worked_by_hand(self) -> None:
        # With a = exp(b), e = exp(sqrt(3)/2): a e / (1 + a e) + a / (a + e) = 2/5 is 8 a^2 + 3 (e + 1/e) a - 2 = 0.
        table = pd.DataFrame({"x": [0, 0, 1, 1], "same": 5})
        e = np.exp(np.sqrt(3) / 2)
        a = (-3 * (e + 1 / e) + np.sqrt(9 * (e + 1 / e) ** 2 + 64)) / 16
        p = missing_probability(table, "mar", 0.2, 0, target="columns")
        expected = [a / (a + e)] * 2 + [a * e / (1 + a * e)] * 2
        assert sorted(p[:, 1]) == pytest.approx(expected, abs=1e-6)

    def test_the_intercept_of_a_constant_logit_is_the_log_odds(self) -> None:
        assert fit_intercept(np.zeros(5), 0.2) == pytest.approx(np.log(0.25), abs=1e-6)
        assert fit_intercept(np.full(5, 700.0), 0.5) == pytest.approx(-700, abs=1e-6)

    @pytest.mark.parametrize("rate", [1e-9, 0.01, 0.5, 0.99, 1 - 1e-9])
    def test_the_intercept_attains_the_rate(self, rate: float) -> None:
        logit = np.append(np.random.default_rng(0).normal(size=999), 600.0)
        assert sigmoid(logit + fit_intercept(logit, rate)).mean() == pytest.approx(rate, abs=1e-6)

    @pytest.mark.parametrize("seed", range(5))
    def test_logits_have_unit_standard_deviation(self, seed: int) -> None:
        p = missing_probability(mixed(), "mar", 0.3, seed)
        for column in p.T[(p > 0).all(0)]:
            assert np.std(np.log(column / (1 - column)), ddof=1) == pytest.approx(1)

    @pytest.mark.parametrize(("share", "inputs"), [(0.3, 3), (0.01, 1), (0.39, 3), (0.95, 9), (0.999, 9)])
    def test_inputs_stay_complete_and_the_rest_attains_the_ratio(self, share: float, inputs: int) -> None:
        for target, rate in (("overall", 0.05 * 10 / (10 - inputs)), ("columns", 0.05)):
            p = missing_probability(mixed(), "mar", 0.05, 1, observed_share=share, target=target)  # type: ignore[arg-type]
            assert sorted(p.mean(0)) == pytest.approx([0] * inputs + [rate] * (10 - inputs), abs=1e-6)
            assert observed_mask(mixed(), "mar", 0.05, 1, observed_share=share).all(0).sum() >= inputs

    def test_nmar_attains_the_ratio_in_every_column_and_hides_inputs_at_random(self) -> None:
        p = missing_probability(mixed(), "nmar", 0.2, 0)
        assert p.mean(0) == pytest.approx(np.full(10, 0.2), abs=1e-6)
        assert (p == 0.2).all(0).sum() == 3
        assert (p.std(0) > 0.05).sum() == 7
        assert np.array_equal(p, missing_probability(mixed(), "nmar", 0.2, 0, target="columns"))

    def test_the_mask_follows_the_inputs(self) -> None:
        table = pd.DataFrame({"x": np.arange(5000.0), "y": 1})
        hidden = ~observed_mask(table, "mar", 0.25, 0)[:, 1]
        # Of a logit uniform of unit variance, P(hidden) is linear enough: corr = 0.22 / 0.5, standard error 1/70.
        assert abs(np.corrcoef(hidden, table["x"])[0, 1]) == pytest.approx(0.42, abs=0.05)

    @pytest.mark.parametrize("mechanism", LOGISTIC)
    def test_frequencies_over_seeds(self, mechanism: str) -> None:
        table, z = mixed(60), []
        probabilities, masks = [], []
        for seed in range(SEEDS):
            p = missing_probability(table, mechanism, 0.2, seed)  # type: ignore[arg-type]
            hidden = ~observed_mask(table, mechanism, 0.2, seed)  # type: ignore[arg-type]
            assert p.mean() == pytest.approx(0.2, abs=1e-6)
            z.append((hidden.sum() - p.sum()) / np.sqrt((p * (1 - p)).sum()))
            probabilities.append(p)
            masks.append(hidden)
        assert abs(np.mean(z)) * np.sqrt(SEEDS) < 4
        assert 125 < np.sum(np.square(z)) < 295  # chi-square of 200: 1e-5 and 1 - 1e-5
        every, hidden = np.ravel(probabilities), np.ravel(masks)
        for low in np.arange(0, 1, 0.1):
            here = (every > low) & (every <= low + 0.1)
            if here.sum() > 100:
                spread = np.sqrt((every[here] * (1 - every[here])).sum())
                assert abs(hidden[here].sum() - every[here].sum()) < 4 * spread
        assert not hidden[every == 0].any()
        complete = np.array([(p == (0 if mechanism == "mar" else 0.2)).all(0) for p in probabilities]).sum(0)
        assert complete.sum() == 3 * SEEDS
        assert np.abs(complete - 60).max() < 4 * np.sqrt(SEEDS * 0.3 * 0.7)  # each column is an input equally often

    def test_names_of_categories_and_units_of_numbers_do_not_matter(self) -> None:
        table = mixed()
        other = table.assign(
            word=table["word"].map(dict(zip("abcde", "vwxyz", strict=True))),
            flag=table["flag"].map({False: "no", True: "yes"}),
            real=table["real"] * 1e6 - 3,
            when=table["when"].dt.tz_localize("UTC"),
        )
        for seed in range(10):
            expected = missing_probability(table, "mar", 0.2, seed)
            assert missing_probability(other, "mar", 0.2, seed) == pytest.approx(expected, abs=1e-5)

    def test_a_column_of_categories_counts_as_much_as_one_of_numbers(self) -> None:
        for column in (pd.Series(list("aab") * 40), pd.Series(range(120)).astype(str), pd.Series([True, False] * 60)):
            drawn = read_input(column)
            random = np.random.default_rng(0)
            parts = np.array([drawn.weigh(random) for _ in range(2000)])
            assert np.abs(parts.mean(1)).max() < 1e-12
            assert (parts**2).mean() == pytest.approx(1, abs=0.1)  # 0.1 is 3 standard errors for two categories

    def test_missing_cells_stay_missing_and_enter_as_the_mean(self) -> None:
        table = pd.DataFrame({"x": [0.0, 1.0, np.nan, 0.5] * 5, "y": ["a", None, "b", "a"] * 5})
        for column in table:
            part = read_input(table[column]).weigh(np.random.default_rng(0))
            assert (part[table[column].isna()] == 0).all()
        for mechanism in MECHANISMS:
            observed = observed_mask(table, mechanism, 0.2, 0)
            assert not observed[table.isna()].any()
            assert (missing_probability(table, mechanism, 0.2, 0)[table.isna()] == 1).all()

    def test_constant_columns_are_inputs_only_when_too_few_vary(self) -> None:
        table = pd.DataFrame({"x": [1.0, 2, 3, 4], "empty": np.nan, "one": "a", "zero": 0.0})
        for seed in range(20):
            p = missing_probability(table, "mar", 0.2, seed, observed_share=0.5)
            assert (p[:, 0] == 0).all()
            assert np.isfinite(p).all()
            assert (p[:, 2:].mean(0).max(), (p[:, 2:].std(0) > 0).sum()) >= (0.4 - 1e-6, 1)

    @pytest.mark.parametrize("mechanism", LOGISTIC)
    def test_extreme_numbers(self, mechanism: str) -> None:
        big = np.finfo(float).max
        table = pd.DataFrame({"x": [-big, big, 0], "y": [5e-324, 0, 0], "z": [1, 1 + 2**-52, 1], "w": [0, 1, 2]})
        for seed in range(20):
            p = missing_probability(table, mechanism, 0.1, seed)  # type: ignore[arg-type]
            assert np.isfinite(p).all()
            assert p.mean() == pytest.approx(0.1, abs=1e-6)


class TestHide:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_it_takes_cells_away_and_changes_no_other(self, mechanism: str) -> None:
        frame = mixed()
        holes, observed = hide(frame, mechanism, 0.4, random_state=3)  # type: ignore[arg-type]
        assert observed.shape == frame.shape
        assert observed.dtype == bool
        assert np.array_equal(holes.notna().to_numpy(), observed)
        assert np.array_equal(observed, observed_mask(frame, mechanism, 0.4, 3))  # type: ignore[arg-type]
        assert holes.index.equals(frame.index)
        for j, column in enumerate(frame):
            assert (holes[column][observed[:, j]] == frame[column][observed[:, j]]).all()
        assert frame.equals(mixed())

    def test_dtypes(self) -> None:
        frame = mixed()[["whole", "real", "flag", "word", "when", "kind", "count"]]
        holes, _ = hide(frame, "independent", 0.4, random_state=3)
        assert [str(dtype) for dtype in holes.dtypes] == [
            *("float64", "float64", "boolean", str(TEXT), str(frame["when"].dtype), "category", "Int64")
        ]
        assert hide(frame, "row", 0.1)[0].dtypes.equals(frame.dtypes), "floor(7 * 0.1) cells are none"

    def test_whole_numbers_too_large_for_floats_stay_exact(self) -> None:
        table = pd.DataFrame({"i": [2**53 + 1, 3] * 5, "u": np.array([2**64 - 1, 0] * 5, dtype=np.uint64)})
        holes, observed = hide(table, "column", 0.2, random_state=0)
        assert [str(dtype) for dtype in holes.dtypes] == ["Int64", "UInt64"]
        assert holes["i"].dropna().tolist() == table["i"][observed[:, 0]].tolist()
        assert holes["u"].dropna().tolist() == table["u"][observed[:, 1]].tolist()

    def test_columns_of_one_name(self) -> None:
        table = pd.DataFrame(np.arange(40.0).reshape(10, 4), columns=["a", "a", "b", "a"])
        for mechanism in MECHANISMS:
            holes, observed = hide(table, mechanism, 0.3, random_state=0)
            assert list(holes.columns) == list(table.columns)
            assert np.array_equal(holes.notna(), observed)

    def test_seeds(self) -> None:
        for mechanism in MECHANISMS:
            first, again, other = (hide(mixed(), mechanism, 0.3, random_state=seed)[1] for seed in (1, 1, 2))
            assert np.array_equal(first, again)
            assert not np.array_equal(first, other)
            assert not np.array_equal(hide(mixed(), mechanism)[1], hide(mixed(), mechanism)[1])
            assert not np.array_equal(hide(mixed(), mechanism, 0.3, 2**40)[1], hide(mixed(), mechanism, 0.3, 0)[1])

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_table_without_rows(self, mechanism: str) -> None:
        holes, observed = hide(mixed()[:0], mechanism, 0.2)  # type: ignore[arg-type]
        assert holes.shape == observed.shape == (0, 10)
        assert missing_probability(mixed()[:0], mechanism, 0.2).shape == (0, 10)  # type: ignore[arg-type]

    @pytest.mark.parametrize("mechanism", ["row", "column", "independent"])
    def test_a_table_without_columns(self, mechanism: str) -> None:
        assert observed_mask(pd.DataFrame(index=range(3)), mechanism, 0.2).shape == (3, 0)  # type: ignore[arg-type]


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    kinds = {
        "number": st.none() | st.floats(allow_infinity=False),
        "word": st.none() | st.text(max_size=2),
        "flag": st.booleans(),
        "whole": st.integers(-(2**63), 2**63 - 1),
    }
    names = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=5))
    columns = [hpd.column(f"{name}{i}", elements=kinds[name], dtype=object) for i, name in enumerate(names)]
    frame = draw(hpd.data_frames(columns, index=hpd.range_indexes(min_size=0, max_size=12)))
    plain = {"number": "float64", "flag": "bool", "whole": "int64", "word": "object"}
    return frame.astype({f"{name}{i}": plain[name] for i, name in enumerate(names)})


@hypothesis.given(tables(), st.sampled_from(MECHANISMS), st.floats(0.01, 0.49), st.integers(0, 2**64 - 1))
@hypothesis.settings(max_examples=60, deadline=None)
def test_any_table(table: pd.DataFrame, mechanism: str, ratio: float, seed: int) -> None:
    varies = any(read_input(table[name]).varies for name in table)
    alone = table.shape[1] == 1 and mechanism in ("row", *LOGISTIC)
    if alone or (mechanism in LOGISTIC and len(table) and not varies):
        with pytest.raises(ValueError, match=r"choose (row, )?column or independent"):
            observed_mask(table, mechanism, ratio, seed)  # type: ignore[arg-type]
        return
    observed = observed_mask(table, mechanism, ratio, seed)  # type: ignore[arg-type]
    assert observed.shape == table.shape
    assert observed.dtype == bool
    assert not observed[table.isna().to_numpy()].any()
    assert np.array_equal(observed, observed_mask(table, mechanism, ratio, seed))  # type: ignore[arg-type]
    p = missing_probability(table, mechanism, ratio, seed)  # type: ignore[arg-type]
    assert ((p >= 0) & (p <= 1)).all()
    assert observed[p == 0].all()
    if mechanism in LOGISTIC and len(table):
        seen = table.notna().to_numpy().all(0)
        wanted = {0.0, ratio, *(ratio * table.shape[1] / (table.shape[1] - k) for k in range(1, table.shape[1]))}
        assert all(min(abs(rate - each) for each in wanted) < 1e-6 for rate in p[:, seen].mean(0))


class TestRefusals:
    @pytest.mark.parametrize("ratio", [-0.1, 0, 1.0, 20, float("nan")])
    @pytest.mark.parametrize("function", [hide, observed_mask, missing_probability])
    def test_a_bad_ratio(self, function: object, ratio: float) -> None:
        for mechanism in MECHANISMS:
            with pytest.raises(ValueError, match=rf"^ratio must be greater than 0 and less than 1, got {ratio}$"):
                function(mixed(), mechanism, ratio)  # type: ignore[operator]

    def test_other_bad_arguments(self) -> None:
        with pytest.raises(ValueError, match="unknown mechanism 'mcar'; choose one of row, column, independent, mar, "):
            hide(mixed(), "mcar", 0.2)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="unknown target 'table'; choose one of overall, columns"):
            hide(mixed(), "mar", 0.2, target="table")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="observed_share must be greater than 0 and less than 1, got 1"):
            hide(mixed(), "mar", 0.2, observed_share=1)
        with pytest.raises(TypeError, match="ratio must be a number, got '20%'"):
            hide(mixed(), "row", "20%")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="ratio must be a number, got True"):
            hide(mixed(), "row", True)
        with pytest.raises(TypeError, match="X must be a pandas or polars DataFrame or a pyarrow Table, got ndarray"):
            hide(mixed().to_numpy(), "row", 0.2)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="random_state must be None, an integer or a NumPy generator, got str"):
            hide(mixed(), "row", 0.2, "0")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"random_state must lie in \[0, 2\*\*64\), got -1"):
            hide(mixed(), "mar", 0.2, -1)

    @pytest.mark.parametrize("mechanism", LOGISTIC)
    def test_tables_without_a_possible_input(self, mechanism: str) -> None:
        with pytest.raises(ValueError, match=f"mechanism '{mechanism}' needs at least 2 columns.*the table has 1;"):
            hide(mixed()[["real"]], mechanism, 0.2)  # type: ignore[arg-type]
        for table in (mixed()[:1], pd.DataFrame({"a": [1, 1], "b": ["x", None], "c": np.nan})):
            with pytest.raises(ValueError, match=r"no column varies.*; choose row, column or independent"):
                hide(table, mechanism, 0.2)  # type: ignore[arg-type]

    @pytest.mark.parametrize("mechanism", LOGISTIC)
    def test_columns_that_cannot_be_inputs(self, mechanism: str) -> None:
        for cells, message in (([1.0, np.inf], "infinite cells"), (["a", 1], "cells of several types")):
            with pytest.raises(ValueError, match=f"column 'odd' has {message}"):
                hide(pd.DataFrame({"odd": cells, "x": [1, 2]}), mechanism, 0.2)  # type: ignore[arg-type]

    @pytest.mark.parametrize("function", [hide, observed_mask, missing_probability])
    def test_a_share_of_one_cell(self, function: object) -> None:
        with pytest.raises(
            ValueError, match=r"mechanism 'row' .* the table has 1 column.*; choose column or independent"
        ):
            function(mixed()[["real"]], "row", 0.9)  # type: ignore[operator]

    @pytest.mark.parametrize(
        ("mechanism", "told"), [("row", r"floor\(10 columns \* 0.05"), ("column", r"floor\(9 rows")]
    )
    def test_a_mask_that_hides_nothing_is_warned_of(self, mechanism: str, told: str) -> None:
        with pytest.warns(UserWarning, match=f"mechanism '{mechanism}' hides no cell: {told}.*at least 0.1"):
            assert hide(mixed(9), mechanism, 0.05, 0)[1].all()  # type: ignore[arg-type]

    def test_a_ratio_out_of_reach(self) -> None:
        message = r"ratio 0.8 is out of reach: 3 of the 10 columns stay complete, so less than 0.7 of the cells can go"
        with pytest.raises(ValueError, match=message):
            observed_mask(mixed(), "mar", 0.8)
        assert (~observed_mask(mixed(), "mar", 0.8, 0, target="columns")).mean() == pytest.approx(0.56, abs=0.05)
        assert (~observed_mask(mixed(), "nmar", 0.8, 0)).mean() == pytest.approx(0.8, abs=0.05)
