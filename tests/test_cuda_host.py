"""The CUDA kernels' bodies on the host, without a card: the same indexing and arithmetic, thread after thread."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any

import pytest
import torch
from batches import LAYOUTS, Batch, make_batch, make_prediction
from cuda_host import Host, compile_library, compiler
from test_codec_encode import KEYS, shares, tail_example
from test_codec_encode import example as encode_example
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import EncodedTable, Layout

SIZES = [0, 1, 63, 64, 65, 129]
FEW = [0, 1, 129]
CELLS = [torch.float32, torch.float64, torch.bfloat16]
TABLES = CELLS[:2]
# Tiles of the fewest rows, in shared memory or not; and rows wider than the map of columns.
WIDE = {"wide": Layout(1001, (2, 800)), "very_wide": Layout(301, (2, *(500,) * 40, 3))}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels, compiled once."""
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    return compile_library(tmp_path_factory.mktemp("cuda_host"))


@pytest.fixture(params=["staged", "unstaged"])
def host(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Host:
    """Tiles in shared memory, which is full of NaN; and rows worked on where they are."""
    return Host(library, staged=request.param == "staged")


def held(kind: torch.dtype) -> torch.dtype:
    """The dtype of the table that goes with cells of a dtype."""
    return torch.float64 if kind == torch.float64 else torch.float32


def sizes(kind: torch.dtype) -> list[int]:
    """Of batches: every odd one in float32, few in the other types, which take the same way through the kernels."""
    return SIZES if kind == torch.float32 else FEW


def value_and_gradient(op: str, prediction: Tensor, batch: Batch, **options: Any) -> tuple[Tensor, Tensor]:
    """Those of the reference, made in float64 where the value is wanted exactly."""
    leaf = prediction.detach().requires_grad_()
    last = batch.weight if op == "masked_loss" else batch.key
    loss = getattr(reference, op)(leaf, batch.table, batch.rows, batch.states, last, **options)
    (gradient,) = torch.autograd.grad(loss, leaf)
    return loss.detach(), gradient


def check_loss(op: str, results: tuple[Tensor, ...], prediction: Tensor, batch: Batch, **options: Any) -> None:
    kind = prediction.dtype
    loss, gradient = results
    wide = {name: x.double() if isinstance(x, Tensor) else x for name, x in options.items()}
    truth, _ = value_and_gradient(op, prediction.double(), batch.double(), **wide)
    assert_close(op, loss, truth, kind)
    assert_close(f"{op}.grad", gradient, value_and_gradient(op, prediction, batch, **options)[1])


@pytest.mark.parametrize("name", ["uniform", "normal"])
@pytest.mark.parametrize(("size", "columns"), [(0, 5), (1, 1), (64, 4), (65, 7), (129, 119), (9, 1029), (3, 50_001)])
def test_noise_is_the_reference_bit_for_bit(host: Host, name: str, size: int, columns: int) -> None:
    rows = torch.arange(2**32 - 50, 2**32 - 50 + size)
    for key in (make_key(3, 2), make_key(-1, 2**32 - 1)):
        assert torch.equal(host.noise(name, rows, columns, key), getattr(reference, name)(rows, columns, key))


@pytest.mark.parametrize("units", range(-2, 3))
def test_quotients_are_rounded_correctly(library: ctypes.CDLL, units: int) -> None:
    """Whatever the card's approximate reciprocal is, which is within a unit or so of the true one."""
    library.host_wrong_quotients.restype = ctypes.c_int64
    assert library.host_wrong_quotients(ctypes.c_int64(units)) == 0


@pytest.mark.parametrize("units", range(-2, 3))
def test_radii_are_rounded_correctly(library: ctypes.CDLL, units: int) -> None:
    """Whatever the card's approximate reciprocal root is, within the relative error that NVIDIA documents."""
    wrong, tried = ctypes.c_int64(), ctypes.c_int64()
    library.host_wrong_radii(ctypes.c_int64(units), ctypes.byref(wrong), ctypes.byref(tried))
    assert wrong.value == 0
    assert tried.value > 1_000_000


def test_every_word_gives_the_bits_of_the_host(library: ctypes.CDLL) -> None:
    library.host_wrong_words.restype = ctypes.c_int64
    assert library.host_wrong_words() == 0


@pytest.mark.parametrize("kind", TABLES, ids=str)
def test_perturb(host: Host, layout: Layout, kind: torch.dtype) -> None:
    for size in sizes(kind):
        batch = make_batch(layout, size, kind)
        assert_close("perturb", host.perturb(batch), reference.perturb(*drawn(batch)))


@pytest.mark.parametrize("kind", TABLES, ids=str)
def test_levels_of_one_hot_columns(host: Host, kind: torch.dtype) -> None:
    batch = make_batch(LAYOUTS["mixed"], 67, kind)
    expected = reference.perturb(*drawn(batch), low=-0.25, high=0.75)
    assert_close("perturb", host.perturb(batch, -0.25, 0.75), expected)


def drawn(batch: Batch) -> tuple[Any, ...]:
    return batch.table, batch.rows, batch.states, batch.alpha, batch.sigma, batch.key


@pytest.mark.parametrize("kind", CELLS, ids=str)
def test_masked_loss(host: Host, layout: Layout, kind: torch.dtype) -> None:
    for size in sizes(kind):
        batch = make_batch(layout, size, held(kind))
        prediction = make_prediction(size, layout.width + layout.num_continuous, kind)
        check_loss("masked_loss", host.masked_loss(prediction, batch), prediction, batch)


@pytest.mark.parametrize("kind", CELLS, ids=str)
def test_masked_loss_with_column_weights(host: Host, layout: Layout, kind: torch.dtype) -> None:
    batch = make_batch(layout, 131, held(kind))
    prediction = make_prediction(131, layout.width + layout.num_continuous, kind)
    weights = torch.linspace(0.0, 5.0, layout.num_columns, dtype=held(kind)) if layout.num_columns > 1 else None
    options: dict[str, Any] = {"mean_weight": 0.7, "column_weight": weights}
    check_loss("masked_loss", host.masked_loss(prediction, batch, 0.7, weights), prediction, batch, **options)


@pytest.mark.parametrize("kind", CELLS, ids=str)
def test_masked_noise_loss(host: Host, layout: Layout, kind: torch.dtype) -> None:
    for size in sizes(kind):
        batch = make_batch(layout, size, held(kind))
        prediction = make_prediction(size, layout.width, kind)
        check_loss("masked_noise_loss", host.masked_noise_loss(prediction, batch), prediction, batch)


@pytest.mark.parametrize("op", ["masked_loss", "masked_noise_loss"])
@pytest.mark.parametrize("kind", CELLS, ids=str)
def test_unused_predictions_do_not_matter(host: Host, op: str, layout: Layout, kind: torch.dtype) -> None:
    plain, filling = op == "masked_loss", math.nan
    batch = make_batch(layout, 67, held(kind))
    used = batch.used_columns(hidden=plain, means=plain)
    prediction = make_prediction(67, used.shape[1], kind)
    loss, gradient = getattr(host, op)(torch.where(used, prediction, filling), batch)
    expected = getattr(host, op)(prediction, batch)
    assert bool(loss.isfinite())
    assert torch.equal(loss, expected[0])
    assert torch.equal(gradient, expected[1])
    assert bool((gradient[~used] == 0).all())
    assert bool(((gradient != 0) & used).any())


@pytest.mark.parametrize("op", ["masked_loss", "masked_noise_loss"])
def test_nan_in_a_used_prediction_is_not_swallowed(host: Host, op: str, layout: Layout) -> None:
    plain = op == "masked_loss"
    batch = make_batch(layout)
    used = batch.used_columns(hidden=plain, means=plain)
    for column in range(0, used.shape[1], 3):
        prediction = make_prediction(67, used.shape[1])
        prediction[used[:, column].nonzero()[0], column] = math.nan
        assert bool(getattr(host, op)(prediction, batch)[0].isnan()), column


@pytest.mark.parametrize("op", ["masked_loss", "masked_noise_loss"])
def test_nothing_to_learn_from(host: Host, op: str, layout: Layout) -> None:
    batch = make_batch(layout, 5)
    prediction = make_prediction(5, layout.width + (layout.num_continuous if op == "masked_loss" else 0))
    for case in (
        dataclasses.replace(batch, rows=torch.zeros_like(batch.rows)),
        dataclasses.replace(batch, states=torch.full_like(batch.states, CLEAN)),
    ):
        loss, gradient = getattr(host, op)(prediction, case)
        assert float(loss) == 0
        assert torch.equal(gradient, torch.zeros_like(prediction))


COEFFICIENTS = {
    "first": (0.7, 0.4, 0.0, 0.0),
    "second order": (0.6, 0.9, -0.3, 0.0),
    "stochastic": (0.8, -0.2, 0.0, 0.5),
    "all": (0.5, 0.6, -0.4, 0.3),
}


def check_step(
    host: Host, layout: Layout, size: int, own: torch.dtype, kind: torch.dtype, terms: str, softmax: bool, extra: int
) -> None:
    g = torch.Generator().manual_seed(size)
    c = COEFFICIENTS[terms]
    prediction = make_prediction(size, layout.width + extra, kind, seed=3)
    prediction[:, layout.width :] = math.nan
    x = make_prediction(size, layout.width, own, seed=1)
    previous = make_prediction(size, layout.width, own, seed=2) if c[2] else None
    states = torch.randint(3, (size, layout.num_columns), generator=g).to(torch.uint8)
    coefficients, rows = torch.tensor(c, dtype=own), torch.randint(2**34, (size,), generator=g)
    key = make_key(-77, 2**32 - 1)
    results = host.step(x, prediction, previous, states, layout, coefficients, rows, key, softmax)
    given = x, prediction, previous, states, layout.offsets(), coefficients, rows, key
    for result, wanted in zip(results, reference.step(*given, softmax=softmax), strict=True):
        assert_close("step", result, wanted)


@pytest.mark.parametrize("kind", CELLS, ids=str)
@pytest.mark.parametrize("softmax", [True, False])
def test_step(host: Host, layout: Layout, kind: torch.dtype, softmax: bool) -> None:
    for size in sizes(kind):
        check_step(host, layout, size, held(kind), kind, "all", softmax, 5 * (size % 2))


def test_bfloat16_prediction_of_a_double_state(host: Host) -> None:
    for extra in (0, 3):
        check_step(host, LAYOUTS["mixed"], 67, torch.float64, torch.bfloat16, "all", True, extra)


@pytest.mark.parametrize("terms", COEFFICIENTS)
def test_terms_of_step(host: Host, layout: Layout, terms: str) -> None:
    check_step(host, layout, 67, torch.float32, torch.float32, terms, True, layout.num_continuous)


def test_step_keeps_clean_cells_whatever_is_predicted(host: Host, layout: Layout) -> None:
    x, nan = make_prediction(67, layout.width), torch.full((67, layout.width), math.nan)
    states = torch.full((67, layout.num_columns), CLEAN, dtype=torch.uint8)
    after, _ = host.step(x, nan, nan, states, layout, torch.ones(4), torch.arange(67), make_key(0, 0), True)
    assert torch.equal(after, x)


def scores(layout: Layout, size: int, kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Values on a coarse grid, so that they often tie with each other and with boundaries, some of them NaN."""
    g = torch.Generator().manual_seed(size)
    x = (torch.randn(size, layout.width, generator=g, dtype=torch.float64) * 4).round().to(kind) / 4
    x[torch.rand(x.shape, generator=g) < 0.03] = math.nan
    x[torch.rand(x.shape, generator=g) < 0.03] = math.inf
    counts = torch.randint(0, 40, (layout.num_continuous,), generator=g)
    columns = [(torch.randn(int(n), generator=g, dtype=torch.float64) * 8).round().to(kind).sort()[0] for n in counts]
    boundaries = torch.cat([torch.zeros(0, dtype=kind), *columns]) / 8
    return x, boundaries, torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_decode(host: Host, layout: Layout, kind: torch.dtype) -> None:
    for size in sizes(kind):
        x, boundaries, starts = scores(layout, size, kind)
        results = host.decode(x, layout, boundaries, starts)
        for result, wanted in zip(results, reference.decode(x, layout.offsets(), boundaries, starts), strict=True):
            assert torch.equal(result, wanted)


@pytest.mark.parametrize("kind", KEYS, ids=str)
@pytest.mark.parametrize("keys", [1, 2, 57, 1000])
def test_encode(library: ctypes.CDLL, kind: torch.dtype, keys: int) -> None:
    for size in (0, 1, 255, 256, 1003):
        arguments = encode_example(size, keys, kind)
        for share in (None, shares(size)):
            assert_close("encode", Host(library).encode(*arguments, share), reference.encode(*arguments, share))


def test_quantiles_in_the_tails(library: ctypes.CDLL) -> None:
    """Ranks from 1e-18 on, a range in which the quantile function has three formulas."""
    arguments = tail_example()
    for share in (None, shares(len(arguments[0]))):
        assert_close("encode", Host(library).encode(*arguments, share), reference.encode(*arguments, share))


def test_what_shared_memory_held_does_not_matter(library: ctypes.CDLL, layout: Layout) -> None:
    D, C = layout.width, layout.num_continuous
    batch, prediction = make_batch(layout), make_prediction(67, D + C, torch.bfloat16)
    x, boundaries, starts = scores(layout, 67, torch.float32)
    step = x, prediction, x, batch.states, layout, torch.ones(4), batch.rows, batch.key, True
    results = []
    for fill in (0x00, 0xFF):
        host = Host(library, fill=fill)
        results.append(
            (
                host.noise("normal", batch.rows, D, batch.key),
                host.perturb(batch),
                *host.masked_loss(prediction, batch),
                *host.masked_noise_loss(prediction[:, :D].contiguous(), batch),
                *host.step(*step),
                *host.decode(x, layout, boundaries, starts),
            )
        )
    for zeros, ones in zip(*results, strict=True):
        assert torch.equal(zeros.nan_to_num(nan=7), ones.nan_to_num(nan=7))


@pytest.mark.parametrize(
    ("name", "kind"),
    [*(("wide", kind) for kind in CELLS), ("very_wide", torch.float32), ("very_wide", torch.bfloat16)],
    ids=str,
)
def test_wide_rows(library: ctypes.CDLL, name: str, kind: torch.dtype) -> None:
    host, layout, own = Host(library), WIDE[name], held(kind)
    D, C = layout.width, layout.num_continuous
    batch = make_batch(layout, 11, own)
    assert_close("perturb", host.perturb(batch), reference.perturb(*drawn(batch)))
    prediction = make_prediction(11, D + C, kind)
    check_loss("masked_loss", host.masked_loss(prediction, batch), prediction, batch)
    prediction = prediction[:, :D].contiguous()
    check_loss("masked_noise_loss", host.masked_noise_loss(prediction, batch), prediction, batch)
    check_step(host, layout, 11, own, kind, "all", True, 3)
    x, boundaries, starts = scores(layout, 11, own)
    for result, wanted in zip(
        host.decode(x, layout, boundaries, starts),
        reference.decode(x, layout.offsets(), boundaries, starts),
        strict=True,
    ):
        assert torch.equal(result, wanted)


def test_losses_of_many_blocks(library: ctypes.CDLL) -> None:
    """More sums of blocks than the last launch has threads."""
    layout = Layout(3, (2, 5))
    batch = make_batch(layout, 20_011)
    for op, columns in (("masked_loss", layout.width + 3), ("masked_noise_loss", layout.width)):
        prediction = make_prediction(20_011, columns)
        check_loss(op, getattr(Host(library), op)(prediction, batch), prediction, batch)


def test_codes_that_do_not_enter_are_not_looked_up(library: ctypes.CDLL) -> None:
    layout = Layout(0, (3,))
    codes = torch.tensor([[2], [-1], [0]], dtype=torch.int16)
    table = EncodedTable(torch.zeros(3, 0), codes, layout, torch.zeros(3, 0))
    states = torch.tensor([[NOISY], [NOISY], [CLEAN]], dtype=torch.uint8)
    one = torch.ones(3)
    batch = Batch(table, torch.arange(3), states, one, one, one, make_key(0, 0))
    loss, gradient = Host(library).masked_loss(torch.zeros(3, 3), batch)
    assert float(loss) == pytest.approx(math.log(3) / 2, rel=1e-6)
    expected = torch.tensor([[1 / 6, 1 / 6, -1 / 3], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(gradient, expected)


def test_every_bfloat16_is_widened_as_torch_does(library: ctypes.CDLL) -> None:
    bits = torch.arange(2**16).to(torch.int16)
    wide = torch.empty(2**16)
    library.host_widen(pointer(bits), ctypes.c_int64(len(bits)), pointer(wide))
    expected = bits.view(torch.bfloat16).float()
    assert torch.equal(wide.isnan(), expected.isnan())
    numbers = ~expected.isnan()
    assert torch.equal(wide[numbers].view(torch.int32), expected[numbers].view(torch.int32))


def test_numbers_at_and_between_bfloat16s_are_narrowed_as_torch_does(library: ctypes.CDLL) -> None:
    exact = torch.arange(2**16).to(torch.int16).view(torch.bfloat16).float()
    finite = exact[exact.isfinite()].double().sort().values
    between = ((finite[1:] + finite[:-1]) / 2).float()
    special = torch.tensor([3.38953139e38, 3.39615136e38, 3.4e38, math.inf, math.nan, 2.0**-25, 2.0**-149, -0.0])
    at = torch.cat([exact, between, special, -special])
    above, below = (torch.nextafter(at, torch.full_like(at, end)) for end in (math.inf, -math.inf))
    wide = torch.cat([at, above, below])
    bits = torch.empty(len(wide), dtype=torch.int16)
    library.host_narrow(pointer(wide), ctypes.c_int64(len(wide)), pointer(bits))
    expected = wide.to(torch.bfloat16)
    assert torch.equal(bits.view(torch.bfloat16).isnan(), expected.isnan())
    numbers = ~expected.isnan()
    assert torch.equal(bits[numbers], expected.view(torch.int16)[numbers])


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 119, 146, 4095, 2**15, 2**16 - 1, 2**18 - 1, 2**30, 2**30 + 1])
def test_quotients_up_to_their_bounds(library: ctypes.CDLL, divisor: int) -> None:
    last = 2**31 - 1
    multiples = torch.arange(0, 2001) * divisor
    high = last - last % divisor - multiples
    edges = torch.cat([multiples, high, torch.arange(2001), last - torch.arange(2001)])
    edges = torch.cat([edges, edges - 1, edges + 1]).clamp(0, last)
    dividends = edges.to(torch.int32)
    quotients = torch.empty_like(dividends)
    library.host_quotients(ctypes.c_int64(divisor), pointer(dividends), ctypes.c_int64(len(edges)), pointer(quotients))
    assert torch.equal(quotients.long(), edges // divisor)


def test_a_divisor_of_a_launch_without_numbers_is_1(library: ctypes.CDLL) -> None:
    dividends = torch.tensor([0, 1, 2**31 - 1], dtype=torch.int32)
    quotients = torch.empty_like(dividends)
    library.host_quotients(ctypes.c_int64(0), pointer(dividends), ctypes.c_int64(3), pointer(quotients))
    assert torch.equal(quotients, dividends)


def pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())
