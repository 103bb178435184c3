"""The cells that the network sees in a training step."""

from __future__ import annotations

import pytest
import torch

from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.objective import column_weights, draw_sigma, draw_states
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY

B, J = 20_000, 6


def _draw(observed: torch.Tensor, shown: torch.Tensor, config: ObjectiveConfig | None = None) -> torch.Tensor:
    uniform = torch.rand(B, J + 2, generator=torch.Generator().manual_seed(0))
    return draw_states(uniform, observed, shown, config or ObjectiveConfig())


@pytest.fixture
def observed() -> torch.Tensor:
    return torch.rand(B, J, generator=torch.Generator().manual_seed(1)) < 0.7


def test_only_observed_cells_are_clean(observed: torch.Tensor) -> None:
    states = _draw(observed, torch.ones_like(observed))
    assert bool((states == CLEAN).any())
    assert not bool((states[~observed] == CLEAN).any())


def test_cells_without_a_value_are_hidden(observed: torch.Tensor) -> None:
    assert bool((_draw(observed, observed)[~observed] == HIDDEN).all())


def test_filled_cells_are_noisy_or_hidden(observed: torch.Tensor) -> None:
    filled = _draw(observed, torch.ones_like(observed))[~observed]
    assert set(filled.tolist()) == {HIDDEN, NOISY}


def test_shares_of_the_kinds_of_row() -> None:
    full = torch.ones(B, J, dtype=torch.bool)
    states = _draw(full, full, ObjectiveConfig(clean_share=0.3, hidden_share=0.1, impute_share=0.2))
    all_noisy = (states == NOISY).all(1).float().mean()
    no_noise = (states != NOISY).all(1).float().mean()
    # A row of six columns is left whole by a uniform fraction with probability 1/7, and picked whole as often.
    assert float(all_noisy) == pytest.approx(0.4 + 0.4 / 7, abs=0.015)
    assert float(no_noise) == pytest.approx(0.2 + 0.4 / 7, abs=0.015)


def test_rows_for_imputation_have_no_noisy_cell(observed: torch.Tensor) -> None:
    config = ObjectiveConfig(clean_share=0.0, hidden_share=0.0, impute_share=1.0)
    states = _draw(observed, torch.ones_like(observed), config)
    assert not bool((states == NOISY).any())


def test_levels_are_log_normal() -> None:
    normal = torch.randn(B, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_sigma = draw_sigma(normal, ObjectiveConfig()).log()
    assert float(log_sigma.mean()) == pytest.approx(0.0, abs=0.03)
    assert float(log_sigma.std()) == pytest.approx(1.6, abs=0.03)


def _observed(*counts: int, rows: int = 16) -> torch.Tensor:
    return torch.arange(rows)[:, None] < torch.tensor(counts)


def test_column_weights_by_hand() -> None:
    # Raw weights 1, 2 and 4 over rates 1, 1/4 and 1/16: (1 + 1/4 + 1/16) / (1 + 1/2 + 1/4) = 3/4 of them.
    expected = torch.tensor([0.75, 1.5, 3.0], dtype=torch.float64)
    torch.testing.assert_close(column_weights(_observed(16, 4, 1), 0.5, 10.0), expected)


def test_column_weights_are_capped_at_a_multiple_of_the_least() -> None:
    # Raw weights 1, 2 and 3 instead of 4: (21/16) / (1 + 1/2 + 3/16) = 7/9.
    expected = torch.tensor([7 / 9, 14 / 9, 21 / 9], dtype=torch.float64)
    torch.testing.assert_close(column_weights(_observed(16, 4, 1), 0.5, 3.0), expected)


@pytest.mark.parametrize("count", [16, 7, 1])
def test_columns_observed_alike_have_weight_one(count: int) -> None:
    weights = column_weights(_observed(count, count, count), 0.5, 10.0)
    assert torch.equal(weights, torch.ones(3, dtype=torch.float64))


def test_power_zero_weights_all_columns_alike() -> None:
    assert torch.equal(column_weights(_observed(16, 3, 0), 0.0, 10.0), torch.ones(3, dtype=torch.float64))


def test_power_one_gives_every_column_its_equal_share() -> None:
    shares = column_weights(_observed(16, 4, 2), 1.0, 10.0) * torch.tensor([16, 4, 2])
    torch.testing.assert_close(shares, torch.full((3,), 22 / 3, dtype=torch.float64))


def test_a_column_never_observed_leaves_the_others_weights() -> None:
    weights = column_weights(_observed(16, 4, 0), 0.5, 10.0)
    torch.testing.assert_close(weights[:2], column_weights(_observed(16, 4), 0.5, 10.0))
    assert float(weights[2]) == pytest.approx(10 * float(weights[0]))


@pytest.mark.parametrize("rows", [0, 5])
def test_column_weights_where_nothing_is_observed(rows: int) -> None:
    nothing = torch.zeros(rows, 3, dtype=torch.bool)
    assert torch.equal(column_weights(nothing, 0.5, 10.0), torch.ones(3, dtype=torch.float64))
