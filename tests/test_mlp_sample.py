"""`mlp_sample` and `mlp_predict`: the default network and its solver in native code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, make_prediction, strided, threads
from tolerances import assert_close
from torch import Tensor, nn

from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import pack, shifts
from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import Layout

STEPS = 4
SIZES = [0, 1, 59, 60, 61, 131]  # a tile has 60 rows


@dataclass(frozen=True)
class Call:
    """The arguments of `mlp_sample`."""

    network: Denoiser
    x: Tensor
    states: Tensor
    offsets: Tensor
    sigmas: Tensor
    coefficients: Tensor
    rows: Tensor
    keys: Tensor

    @torch.no_grad()
    def sample(self, module: ModuleType) -> Tensor:
        return module.mlp_sample(*vars(self).values())

    @torch.no_grad()
    def predict(self, module: ModuleType) -> Tensor:
        return module.mlp_predict(self.network, self.x, self.states, self.sigmas[:1])


def make_network(layout: Layout, width: int = 20, blocks: int = 2, *, seed: int = 0) -> Denoiser:
    """A network in which no weight is 0."""
    g = torch.Generator().manual_seed(seed)
    network = Denoiser(layout, width, blocks, embedding=8)
    for weight in network.parameters():
        weight.data = torch.randn(weight.shape, generator=g) / (weight.shape[-1] ** 0.5 if weight.dim() > 1 else 2)
    return network


def example(layout: Layout, size: int = 67, *, width: int = 20, blocks: int = 2, noise: float = 0.0) -> Call:
    g = torch.Generator().manual_seed(3)
    sigmas = karras_sigmas(STEPS, 8.0, 0.15, 3.0)
    coefficients = dpm_solver_2m(sigmas).float()
    coefficients[:, 3] = noise
    states = torch.randint(3, (size, layout.num_columns), generator=g).to(torch.uint8)
    keys = torch.stack([make_key(5, i) for i in range(STEPS)])
    rows = torch.randint(2**34, (size,), generator=g)
    x = 3 * make_prediction(size, layout.width)
    network = make_network(layout, width, blocks)
    return Call(network, x, states, layout.offsets(), sigmas[:-1].float(), coefficients, rows, keys)


def test_by_hand(backend: ModuleType) -> None:
    layout = Layout(1, (2,))
    network = Denoiser(layout, width=8, blocks=1)  # its output layer is 0
    network.outputs.bias.data = torch.tensor([2.0, 0.0, 3.0, 7.0])
    states = torch.tensor([[NOISY, NOISY], [CLEAN, NOISY], [HIDDEN, HIDDEN]], dtype=torch.uint8)
    x = torch.tensor([[3.0, 1.0, 1.0]] * 3)
    with torch.no_grad():
        found = backend.mlp_predict(network, x, states, torch.tensor([2.0]))
    expected = torch.tensor([[0.0, 0.0, 3.0, 7.0]] * 3, dtype=torch.float64)
    expected[:, 0] = torch.tensor([3 / 5 + 2 * 2 / 5**0.5, 2.0, 2.0])
    assert_close("mlp_predict", found, expected)
    last, keys = torch.tensor([[0.25, 1.0, 0.0, 0.0]]), make_key(0, 0)[None]
    with torch.no_grad():
        found = backend.mlp_sample(
            network, x, states, layout.offsets(), torch.tensor([2.0]), last, torch.arange(3), keys
        )
    probabilities = torch.softmax(torch.tensor([0.0, 3.0], dtype=torch.float64), 0)
    wanted = torch.cat([0.75 + expected[:, :1], 0.25 + probabilities.expand(3, 2)], 1)
    wanted[1, 0] = 3.0  # clean
    assert_close("mlp_sample", found, wanted)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_native_is_the_reference(native: ModuleType, layout: Layout, noise: float) -> None:
    call = example(layout, noise=noise)
    assert_close("mlp_predict", call.predict(native), call.predict(reference))
    assert_close("mlp_sample", call.sample(native), call.sample(reference))


@pytest.mark.parametrize(("width", "blocks"), [(1, 1), (8, 0), (16, 3), (33, 1), (128, 3), (200, 2)])
def test_native_is_the_reference_at_every_width(native: ModuleType, width: int, blocks: int) -> None:
    call = example(LAYOUTS["mixed"], width=width, blocks=blocks)
    assert_close("mlp_predict", call.predict(native), call.predict(reference))
    assert_close("mlp_sample", call.sample(native), call.sample(reference))


@pytest.mark.parametrize("size", SIZES)
def test_native_is_the_reference_at_every_size(native: ModuleType, size: int) -> None:
    call = example(LAYOUTS["big_groups"], size)
    assert_close("mlp_predict", call.predict(native), call.predict(reference))
    assert_close("mlp_sample", call.sample(native), call.sample(reference))


def test_the_noise_is_that_of_normal(backend: ModuleType, layout: Layout) -> None:
    call = example(layout)
    noise_alone = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).expand(STEPS, 4)
    call = replace(call, coefficients=noise_alone)
    clean = (call.states == CLEAN)[:, layout.groups()]
    expected = reference.normal(call.rows, layout.width, call.keys[-1])
    assert torch.equal(call.sample(backend), torch.where(clean, call.x, expected))


def test_clean_cells_are_kept_to_the_bit(backend: ModuleType, layout: Layout) -> None:
    call = example(layout, noise=0.3)
    clean = (call.states == CLEAN)[:, layout.groups()]
    assert torch.equal(call.sample(backend)[clean], call.x[clean])


def test_a_row_depends_on_itself_alone(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], 307, noise=0.3)
    with threads(1):
        whole, predicted = call.sample(native), call.predict(native)
    with threads(2):
        assert torch.equal(call.sample(native), whole)
        assert torch.equal(call.predict(native), predicted)
    for a, b in [(0, 1), (1, 60), (60, 307), (306, 307)]:
        part = replace(call, x=call.x[a:b], states=call.states[a:b], rows=call.rows[a:b])
        assert torch.equal(part.sample(native), whole[a:b])
        assert torch.equal(part.predict(native), predicted[a:b])


def test_non_contiguous_inputs_left_alone(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], noise=0.3)
    tensors = {name: value for name, value in vars(call).items() if isinstance(value, Tensor)}
    before = {name: value.clone() for name, value in tensors.items()}
    gaps = replace(call, **{name: strided(value) for name, value in tensors.items()})
    assert_close("mlp_sample", gaps.sample(backend), call.sample(backend))
    assert_close("mlp_predict", gaps.predict(backend), call.predict(backend))
    assert all(torch.equal(before[name], value) for name, value in tensors.items())


def test_weights_are_read_as_they_are_now(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    before = call.predict(backend)
    for weight in call.network.parameters():
        other = call.predict(backend)
        weight.data *= 1.5
        assert not torch.equal(call.predict(backend), other)
    assert_close("mlp_predict", call.predict(backend), call.predict(reference))
    assert not torch.equal(call.predict(backend), before)


def test_a_cell_that_is_not_finite_stays_in_its_row(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    states = torch.full_like(call.states, NOISY)
    x = call.x.clone()
    x[7, 0], x[9, 1] = torch.nan, torch.inf
    good, spoilt = replace(call, states=states).sample(native), replace(call, x=x, states=states).sample(native)
    others = torch.ones(len(x), dtype=torch.bool)
    others[[7, 9]] = False
    assert torch.equal(spoilt[others], good[others])
    assert not bool(torch.isfinite(spoilt[~others]).all(1).any())


def test_a_hidden_cell_is_ignored_whatever_it_holds(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    states = call.states.clone()
    states[:, 1] = HIDDEN
    call = replace(call, states=states)
    x = call.x.clone()
    x[:, 1] = torch.nan
    assert torch.equal(replace(call, x=x).predict(backend), call.predict(backend))


def test_an_overflow_is_not_hidden(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    call.network.inputs.weight.data *= 1e25
    assert not bool(torch.isfinite(call.predict(native)).any(1).all())


def test_bad_arguments_are_named(native: ModuleType) -> None:
    good = example(LAYOUTS["mixed"], 5)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"network": nn.Linear(3, 3)}, "network"),
        ({"network": make_network(LAYOUTS["mixed"]).double()}, "network"),
        ({"network": make_network(LAYOUTS["no_categorical"])}, "x"),
        ({"x": good.x.double()}, "x"),
        ({"x": good.x[:, :-1]}, "x"),
        ({"states": good.states.long()}, "states"),
        ({"states": good.states[:-1]}, "states"),
        ({"offsets": good.offsets.int()}, "offsets"),
        ({"offsets": good.offsets[:-1]}, "offsets"),
        ({"offsets": torch.tensor([5, 8, 10, 11, 18, 20])}, "offsets"),
        ({"network": make_network(LAYOUTS["mixed"]).to("meta")}, "network"),
        ({"sigmas": good.sigmas.double()}, "sigmas"),
        ({"sigmas": good.sigmas[None]}, "sigmas"),
        ({"coefficients": good.coefficients[:-1]}, "coefficients"),
        ({"coefficients": good.coefficients.double()}, "coefficients"),
        ({"rows": good.rows[:-1]}, "rows"),
        ({"keys": good.keys[:-1]}, "keys"),
        ({"keys": good.keys.int()}, "keys"),
    ]
    for change, word in changes:
        with pytest.raises((ValueError, TypeError), match=rf"^{word} "):
            replace(good, **change).sample(native)
    with pytest.raises(ValueError, match="sigma"):
        native.mlp_predict(good.network, good.x, good.states, good.sigmas)


def _arguments(call: Call) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The arguments of the ops in `torch.ops`."""
    weights, shift = pack(call.network), shifts(call.network, call.sigmas)
    network = (call.x, call.states, weights, call.offsets)
    return (*network, call.sigmas, shift, call.coefficients, call.rows, call.keys), (
        *network,
        call.sigmas[:1],
        shift[:1],
    )


def test_weights_of_another_network(native: ModuleType) -> None:
    sample, predict = _arguments(example(LAYOUTS["mixed"], 5))
    for op, arguments in (("mlp_sample", sample), ("mlp_predict", predict)):
        for weights in (arguments[2][:-16], arguments[2][1:]):
            with pytest.raises(RuntimeError, match="weights"):
                getattr(torch.ops.missdiff_fast, op)(*arguments[:2], weights, *arguments[3:])


def test_registration(native: ModuleType, layout: Layout) -> None:
    sample, predict = _arguments(example(layout, 5))
    torch.library.opcheck(torch.ops.missdiff_fast.mlp_sample.default, sample)
    torch.library.opcheck(torch.ops.missdiff_fast.mlp_predict.default, predict)


def test_a_missing_derivative_is_an_error(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], 5)
    arguments = {**vars(call), "x": call.x.clone().requires_grad_()}
    with pytest.raises(ValueError, match="detach"):
        native.mlp_sample(*arguments.values())
    with torch.no_grad():
        assert torch.equal(native.mlp_sample(*arguments.values()), call.sample(native))


def test_no_steps(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    nothing = {name: getattr(call, name)[:0] for name in ("sigmas", "coefficients", "keys")}
    assert torch.equal(replace(call, **nothing).sample(backend), call.x)


def test_compiles_whole(native: ModuleType, fresh_compiler: None) -> None:
    call = example(LAYOUTS["mixed"], 5)
    arguments = dict(vars(call))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x: Tensor) -> Tensor:
        return native.mlp_sample(*{**arguments, "x": x * 2}.values()) + 1

    with torch.no_grad():
        assert torch.equal(compiled(call.x), replace(call, x=call.x * 2).sample(native) + 1)
