"""The network's CUDA kernels on the host, without a card: the same tiles, panels and lanes."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import pytest
import torch
from batches import LAYOUTS
from benchmarks import bench_on_the_path, load  # noqa: F401
from cuda_host import Guarded, compile_library, compiler
from test_mlp_sample import Call, example
from torch import Tensor

from missdiff_fast.networks.packing import shifts
from missdiff_fast.networks.packing_cuda import PRECISIONS, pack
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import Layout

# The greatest relative error of a pass with factors of 8 and 24 significant bits, some ten roundings deep, the host's
# stand-ins for a card's quick functions among them. A card's own bounds are in test_cuda_errors.py.
GREATEST = {"bfloat16": 6e-3, "float32": 2e-6}
NARROW, WIDE = (1, 16, 33, 70, 96, 128), (129, 256, 300, 512)


class _Call(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in (
                "num_continuous", "num_categorical", "width", "hidden", "blocks", "steps", "num_rows", "precision",
                "strips"
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "offsets", "weights", "sigmas", "shifts", "coefficients", "keys", "rows", "states", "x", "out"
            )
        ),
    )  # fmt: skip


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    found = compile_library(tmp_path_factory.mktemp("cuda_host_mlp"), "cuda_host_mlp")
    found.host_mlp_bytes.restype = ctypes.c_int64
    return found


@torch.no_grad()
def run(library: ctypes.CDLL, call: Call, precision: str, *, predict: bool = False, strips: int = 2) -> Tensor:
    network, layout = call.network, call.network.layout
    packed = pack(network, precision)
    weights = torch.empty(len(packed) + 16, dtype=torch.uint8)
    weights = weights[-weights.data_ptr() % 16 :][: len(packed)]
    weights.copy_(packed)
    out = Guarded((len(call.x), layout.width + (layout.num_continuous if predict else 0)), torch.float32)
    tensors = [
        layout.offsets(), weights, call.sigmas, shifts(network, call.sigmas), call.coefficients, call.keys, call.rows,
        call.states, call.x
    ]  # fmt: skip
    tensors = [tensor.contiguous() for tensor in tensors]
    sizes = (
        layout.num_continuous, layout.num_categorical, layout.width, network.width, len(network.blocks),
        0 if predict else len(call.sigmas), len(call.x), PRECISIONS.index(precision), strips
    )  # fmt: skip
    arguments = _Call(*sizes, *(tensor.data_ptr() for tensor in tensors), out.tensor.data_ptr())
    assert library.host_mlp_bytes(ctypes.byref(arguments)) == len(weights)
    library.host_mlp(ctypes.byref(arguments))
    return out.check()


def error(result: Tensor, truth: Tensor) -> float:
    return float(torch.dist(result.double(), truth.double()) / truth.double().norm())


def test_sums_are_rounded_toward_zero(library: ctypes.CDLL) -> None:
    library.host_toward_zero.restype = ctypes.c_float
    above, last = 1 + 2**-23, 1 - 2**-24  # the neighbours of 1 in float32
    cases = {1 + 2**-24: 1.0, 1 + 3 * 2**-25: 1.0, 2 - 2**-30: 2 - 2**-23, 1 - 2**-30: last, above: above, 0.0: 0.0}
    for exact, rounded in cases.items():
        for sign in (1, -1):
            assert library.host_toward_zero(ctypes.c_double(sign * exact)) == sign * rounded, exact


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_drawn_rows(library: ctypes.CDLL, layout: Layout, precision: str, noise: float) -> None:
    call = example(layout, 35, noise=noise)
    assert error(run(library, call, precision), call.sample(reference)) < GREATEST[precision]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_predicted_rows(library: ctypes.CDLL, layout: Layout, precision: str) -> None:
    call = example(layout, 35)
    result = run(library, call, precision, predict=True)
    assert error(result, call.predict(reference)) < GREATEST[precision]


@pytest.mark.parametrize("width", [*NARROW, *WIDE])
def test_every_width(library: ctypes.CDLL, width: int) -> None:
    call = example(LAYOUTS["mixed"], 5, width=width, blocks=1)
    for precision in PRECISIONS if width < 500 else ["float32"]:
        result = run(library, call, precision, predict=True)
        assert error(result, call.predict(reference)) < GREATEST[precision], precision


@pytest.mark.parametrize("blocks", [0, 1, 3])
@pytest.mark.parametrize("width", [24, 130])
def test_any_number_of_blocks(library: ctypes.CDLL, width: int, blocks: int) -> None:
    call = example(LAYOUTS["mixed"], 3, width=width, blocks=blocks)
    assert error(run(library, call, "float32"), call.sample(reference)) < GREATEST["float32"]


@pytest.mark.parametrize("width", [24, 130])
def test_a_row_depends_on_itself_alone(library: ctypes.CDLL, width: int) -> None:
    """Wherever in a tile it is, and however many rows there are."""
    call = example(LAYOUTS["mixed"], 41, width=width, noise=0.3)
    whole = run(library, call, "bfloat16")
    for begin, end in ((0, 1), (7, 40), (33, 41)):
        part = replace(call, x=call.x[begin:end], states=call.states[begin:end], rows=call.rows[begin:end])
        assert torch.equal(run(library, part, "bfloat16"), whole[begin:end])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("width", [130, 300])
def test_rows_of_four_strips_are_those_of_two(library: ctypes.CDLL, width: int, precision: str) -> None:
    call = example(LAYOUTS["mixed"], 70, width=width, blocks=1, noise=0.3)
    for predict in (False, True):
        two, four = (run(library, call, precision, predict=predict, strips=strips) for strips in (2, 4))
        assert torch.equal(two, four)


class Plan(ctypes.Structure):
    """A question to `plan_block`, and its answer."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "cells", "hidden", "num_rows", "precision", "steps",
            "processors", "block_bytes", "processor_bytes", "reserved_bytes",
            "fits", "strips", "warps", "shared_cells", "shared_bytes", "scratch_bytes"
        )
    )  # fmt: skip


# Multiprocessors; shared memory of a block, of a multiprocessor, and that a block takes beside its own.
HOPPER = (132, 232_448, 233_472, 1024)
AMPERE = (108, 166_912, 167_936, 1024)
CONSUMER = (84, 101_376, 102_400, 1024)
Card = tuple[int, int, int, int]
MANY = 353_150


def plan(
    library: ctypes.CDLL, cells: int, width: int, rows: int, precision: str, card: Card, *, steps: int = 15
) -> Plan:
    asked = Plan(cells, width, rows, PRECISIONS.index(precision), steps, *card)
    library.host_mlp_plan(ctypes.byref(asked))
    return asked


@pytest.mark.parametrize(
    ("width", "precision", "card", "strips", "shared_cells", "shared_bytes"),
    [
        (256, "bfloat16", HOPPER, 4, True, 100_352 + 99_904),
        (384, "bfloat16", HOPPER, 4, False, 149_504),
        (512, "bfloat16", HOPPER, 4, False, 198_656),
        (256, "bfloat16", AMPERE, 4, False, 100_352),
        (384, "bfloat16", AMPERE, 4, False, 149_504),
        (512, "bfloat16", AMPERE, 2, True, 99_328 + 49_984),
        (256, "bfloat16", CONSUMER, 4, False, 100_352),
        (384, "bfloat16", CONSUMER, 2, False, 74_752),
        (256, "float32", HOPPER, 2, True, 99_328 + 49_984),
        (384, "float32", HOPPER, 2, True, 148_480 + 49_984),
        (512, "float32", HOPPER, 2, False, 197_632),
        (384, "float32", AMPERE, 2, False, 148_480),
    ],
)
def test_shared_memory_of_wide_networks(
    library: ctypes.CDLL,
    width: int,
    precision: str,
    card: Card,
    strips: int,
    shared_cells: bool,
    shared_bytes: int,
) -> None:
    """Four strips where their factors fit, with the cells beside them where those fit too."""
    found = plan(library, 119, width, MANY, precision, card)
    assert (found.fits, found.strips, found.warps) == (1, strips, 8)
    assert (bool(found.shared_cells), found.shared_bytes) == (shared_cells, shared_bytes)
    assert found.shared_bytes <= card[1]


@pytest.mark.parametrize(
    ("cells", "card", "warps", "shared_cells", "shared_bytes"),
    [
        (119, HOPPER, 7, True, 36_864 + 7 * 25_024),
        (80, HOPPER, 4, True, 36_864 + 4 * 18_368),  # two blocks
        (119, AMPERE, 5, True, 36_864 + 5 * 25_024),
        (119, CONSUMER, 8, False, 36_864),
        (40, CONSUMER, 7, True, 36_864 + 7 * 8_384),
    ],
)
def test_shared_memory_of_narrow_networks(
    library: ctypes.CDLL, cells: int, card: Card, warps: int, shared_cells: bool, shared_bytes: int
) -> None:
    """Two blocks of four warps on a multiprocessor where they fit, else one of as many as fit."""
    for precision in PRECISIONS:
        found = plan(library, cells, 96, MANY, precision, card)
        assert (found.fits, found.strips, found.warps) == (1, 0, warps)
        assert (bool(found.shared_cells), found.shared_bytes) == (shared_cells, shared_bytes)
        assert found.shared_bytes <= card[1]
        if warps == 4:
            assert 2 * (found.shared_bytes + card[3]) <= card[2]


def test_only_several_steps_keep_the_product_of_the_states(library: ctypes.CDLL) -> None:
    kept = 7 * 16 * 96 * 4
    for steps, scratch in ((0, 0), (1, 0), (2, kept)):
        assert plan(library, 119, 96, MANY, "bfloat16", HOPPER, steps=steps).scratch_bytes == scratch
    assert plan(library, 119, 96, MANY, "bfloat16", CONSUMER).scratch_bytes == 8 * (16 * 96 * 4 + 25_024)
    assert plan(library, 119, 256, MANY, "bfloat16", HOPPER).scratch_bytes == 0


@pytest.mark.parametrize(("rows", "warps"), [(1, 1), (132 * 16, 1), (132 * 16 * 3, 3), (132 * 16 * 5, 3), (MANY, 4)])
def test_a_small_batch_is_spread_over_all_multiprocessors(library: ctypes.CDLL, rows: int, warps: int) -> None:
    assert plan(library, 80, 96, rows, "bfloat16", HOPPER).warps == warps


@pytest.mark.parametrize("card", [HOPPER, AMPERE, CONSUMER], ids=["Hopper", "Ampere", "consumer"])
@pytest.mark.parametrize("name", ["mixed", "no_continuous", "no_categorical"])
def test_what_the_checkers_of_a_card_see(library: ctypes.CDLL, name: str, card: Card) -> None:
    """The small cases run narrow blocks of one and of several warps, and wide ones of two and of four strips."""
    small_case, cells = load("gpu.small_case"), LAYOUTS[name].width
    seen = set()
    few = [(width, precision, 67) for width in small_case.WIDTHS for precision in small_case.PRECISIONS]
    many = [
        (width, precision, 67 * small_case.repeats(67, rows * card[0])) for width, precision, rows in small_case.MANY
    ]
    for width, precision, rows in few + many:
        found = plan(library, cells, width, rows, precision, card, steps=1)
        assert found.fits
        seen.add((precision, "wide", found.strips) if found.strips else (precision, "narrow", min(found.warps, 2)))
    wide = {("bfloat16", "wide", 2), ("bfloat16", "wide", 4), ("float32", "wide", 2)}
    assert seen == wide | {(precision, "narrow", warps) for precision in PRECISIONS for warps in (1, 2)}


def test_a_network_without_room_is_told(library: ctypes.CDLL) -> None:
    assert not plan(library, 119, 512, MANY, "float32", AMPERE).fits


def test_few_rows_take_two_strips_so_that_more_multiprocessors_work(library: ctypes.CDLL) -> None:
    full = HOPPER[0] * 64
    assert [plan(library, 119, 256, rows, "bfloat16", HOPPER).strips for rows in (full - 1, full)] == [2, 4]


@pytest.mark.parametrize("width", [24, 130])
def test_no_rows(library: ctypes.CDLL, width: int) -> None:
    call = example(LAYOUTS["mixed"], 0, width=width)
    assert run(library, call, "bfloat16").shape == (0, LAYOUTS["mixed"].width)


@pytest.mark.parametrize("width", [24, 130])
def test_a_diverged_network_shows(library: ctypes.CDLL, width: int) -> None:
    """Rows whose variance overflows become NaN, not numbers that look like any other."""
    call = example(LAYOUTS["mixed"], 3, width=width)
    call.network.inputs.weight.data *= 1e30
    assert bool(run(library, call, "float32", predict=True).isnan().any())


def test_a_wide_row_whose_inputs_come_in_pieces(library: ctypes.CDLL) -> None:
    """More panels of inputs than the hidden layer has, which wide networks take in turns."""
    call = example(Layout(300, (2, 270)), 2, width=130, blocks=1)
    result = run(library, call, "float32", predict=True)
    assert error(result, call.predict(reference)) < GREATEST["float32"]
