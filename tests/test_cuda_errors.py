"""How wrong a card's passes of the network may be, without a card: errors of its quick functions in the reference."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from batches import LAYOUTS
from test_cuda_host_mlp import GREATEST
from test_mlp_sample import Call, example
from torch import Tensor, nn
from torch.nn import functional

from missdiff_fast.networks.mlp import Block
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import Layout

ULP = 2.0**-23  # the greatest relative size of a unit in the last place

# Products, normalisations and sums are those of the host: the first layer, three for each of two blocks, the last
# normalisation, the outputs and the score are ten, each wrong by a unit at most, as tensor cores round toward zero.
ROUNDINGS = 10 * ULP
# `quick_exp` and `quick_quotient` come on top (csrc/cuda/kernels/mlp.h). SiLU is x / (1 + e) with e = exp(-x). e is
# wrong by up to 2 + |1.173 x| units, of which 1 + e has the share e / (1 + e); that sum adds half a unit, and the
# quotient two. So SiLU is wrong by up to 3.5 units of itself at 0 and 2.5 for large x, and by more only for x below 0,
# where it is small. Its error goes through `down` into the row, which carries it to all further blocks: each normalises
# the row and takes it through `up`, SiLU and `down` once more; the outputs read the row at last. In soft-max a
# probability is wrong by 2 + |1.173 d| units, where its logit is d below the greatest, and passes through the solver
# into the next step. With all signs at their worst, this moves the result by up to 4.1 units, as the test below finds,
# and by less than one if all signs are equal.
QUICK = 5 * ULP
# The units of float32 vanish beside those of bfloat16.
ON_CARD = {"bfloat16": GREATEST["bfloat16"], "float32": ROUNDINGS + QUICK}

# The calls that test_cuda_network.py holds to these bounds.
LAYOUTS_AND_WIDTHS = [("mixed", width) for width in (20, 40, 96, 128, 200, 300, 500)]
FEW = [*LAYOUTS_AND_WIDTHS, ("clinical", 96), ("no_continuous", 40)]
TOO_WIDE = [96, 200]


def few_rows(name: str, width: int) -> Call:
    return example(LAYOUTS[name], 67, width=width, noise=0.3)


def too_wide_rows(width: int) -> Call:
    """Encoded rows that have no room in shared memory."""
    return example(Layout(700, (2, 1500)), 40, width=width, blocks=1)


def exp_error(x: Tensor) -> Tensor:
    return ULP * (2 + 1.173 * x.abs())


def silu_error(x: Tensor) -> Tensor:
    return exp_error(x) * torch.sigmoid(-x) + 2.5 * ULP


class Errors:
    """The errors of one pass after another: of each result its greatest one times a share from -1 to 1."""

    def __init__(self) -> None:
        self.shares: list[Tensor] = []
        self._next = 0

    def restart(self) -> None:
        self._next = 0

    def of(self, greatest: Tensor) -> Tensor:
        if self._next == len(self.shares):
            self.shares.append(torch.zeros_like(greatest).requires_grad_())
        self._next += 1
        return self.shares[self._next - 1] * greatest.detach()


class QuickBlock(nn.Module):
    """A block whose SiLU is wrong."""

    def __init__(self, block: Block, errors: Errors) -> None:
        super().__init__()
        self.block, self.errors = block, errors

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        x = self.block.up(self.block.norm(h) + embedding)
        added: Tensor = self.block.down(functional.silu(x) * (1 + self.errors.of(silu_error(x))))
        return h + added


class Quick:
    """A call in float64 whose exponentials and quotients are as wrong as `Errors` says."""

    def __init__(self, call: Call) -> None:
        self.errors, network = Errors(), copy.deepcopy(call.network).double()
        network.blocks = nn.ModuleList(QuickBlock(block, self.errors) for block in network.blocks)
        numbers = {name: getattr(call, name).double() for name in ("x", "sigmas", "coefficients")}
        self.call = replace(call, network=network.requires_grad_(False), **numbers)

    def predict(self) -> Tensor:
        self.errors.restart()
        return reference.mlp_predict(self.call.network, self.call.x, self.call.states, self.call.sigmas[:1])

    def sample(self) -> Tensor:
        self.errors.restart()
        return reference.mlp_sample(*vars(self.call).values(), step=self._step)

    def _step(self, x: Tensor, prediction: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        bounds = self.call.offsets.tolist()
        groups = [prediction[:, a:b] for a, b in pairwise(bounds)]
        # A factor 1 + d of a probability before it is divided by the sum is a logit greater by d.
        wrong = [z + self.errors.of(exp_error(z - z.max(1, keepdim=True).values)) for z in groups]
        return reference.step(x, torch.cat([prediction[:, : bounds[0]], *wrong], 1), *rest)


def moved(quick: Quick, kind: str) -> tuple[float, float]:
    """The relative change of the result by errors of equal signs, and by the worst signs that a few ascents find."""
    run = getattr(quick, kind)
    right = run().detach()
    errors = quick.errors

    def change(shares: list[Tensor]) -> Tensor:
        leaves, errors.shares = errors.shares, shares
        with torch.no_grad():
            found = run() - right
        errors.shares = leaves
        return found

    direction, worst = torch.randn(right.shape, generator=torch.Generator().manual_seed(0)).double(), 0.0
    equal = float(change([torch.ones_like(x) for x in errors.shares]).norm())
    for _ in range(4):
        signs = [x.sign() for x in torch.autograd.grad(run(), errors.shares, direction)]
        direction = change(signs)
        worst = max(worst, float(direction.norm()))
    return equal / float(right.norm()), worst / float(right.norm())


@pytest.mark.parametrize("kind", ["predict", "sample"])
@pytest.mark.parametrize(("name", "width"), FEW)
def test_quick_functions_move_few_rows_within_their_bound(name: str, width: int, kind: str) -> None:
    equal, worst = moved(Quick(few_rows(name, width)), kind)
    assert 0 < equal < ULP
    assert equal < worst < QUICK


@pytest.mark.parametrize("kind", ["predict", "sample"])
@pytest.mark.parametrize("width", TOO_WIDE)
def test_quick_functions_move_wide_rows_within_their_bound(width: int, kind: str) -> None:
    equal, worst = moved(Quick(too_wide_rows(width)), kind)
    assert 0 < equal < ULP
    assert equal < worst < QUICK


def test_the_functions_errors_are_those_of_the_derivation() -> None:
    """SiLU by its parts, each as wrong as it may be, in either direction."""
    x = torch.linspace(-20, 20, 4001, dtype=torch.float64)
    for sign in (1, -1):
        below = (1 + torch.exp(-x) * (1 - sign * exp_error(x))) * (1 - sign * ULP / 2)
        silu = x / below * (1 + sign * 2 * ULP)
        relative = (silu / functional.silu(x) - 1).abs()[x != 0]
        torch.testing.assert_close(relative, silu_error(x)[x != 0], rtol=1e-4, atol=0)
    at = silu_error(torch.tensor([0.0, 20.0], dtype=torch.float64)) / ULP
    torch.testing.assert_close(at, torch.tensor([3.5, 2.5], dtype=torch.float64), rtol=1e-6, atol=0)


def test_without_errors_it_is_the_reference() -> None:
    call = few_rows("mixed", 20)
    quick = Quick(call)
    for kind in ("predict", "sample"):
        wanted = getattr(call, kind)(reference).double()
        torch.testing.assert_close(getattr(quick, kind)().detach(), wanted, rtol=1e-4, atol=1e-5)
