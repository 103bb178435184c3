from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from batches import strided, threads
from torch import Tensor

from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key
from missdiff_fast.ops.reference.random import _cos_sin_turn, _log

# Random123's known-answer vectors for philox4x32-10: counter, key, result.
KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
SEEDS = [0, 1, -1, 2**63 - 1, -(2**63), 0x299F31D0A4093822]
STEPS = [0, 1, 2**31, 2**32 - 1]
FUNCTIONS = ["uniform", "normal"]


def row_numbers(size: int, first: int = 0) -> Tensor:
    return torch.arange(first, first + size)


def unit(word: int) -> float:
    return ((word >> 9) * 2 + 1) / 2**24


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_philox_known_answers(counter: list[int], key: list[int], words: list[int]) -> None:
    result = reference.philox_words(*(torch.tensor(word) for word in counter + key))
    assert [int(word) for word in result] == words


def test_philox_counter_is_row_column_and_step() -> None:
    row, block, step, seed = 0x5EED_0000_1234, 3, 77, -12345
    key = make_key(seed, step)
    words = reference.philox(torch.tensor([row]), 4 * block + 4, key)[0, 4 * block :]
    counter = [row & 0xFFFFFFFF, row >> 32, block, step, seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    assert torch.equal(words, torch.stack(reference.philox_words(*(torch.tensor(word) for word in counter))))


def test_known_answers_reach_the_numbers(backend: ModuleType) -> None:
    words = KNOWN_ANSWERS[0][2]
    u = [unit(word) for word in words]
    row, key = torch.zeros(1, dtype=torch.int64), backend.make_key(0, 0)
    assert backend.uniform(row, 4, key)[0].tolist() == u
    expected = []
    for radius, turn in [(u[0], u[1]), (u[2], u[3])]:
        length = math.sqrt(-2 * math.log(radius))
        expected += [length * math.cos(2 * math.pi * turn), length * math.sin(2 * math.pi * turn)]
    torch.testing.assert_close(
        backend.normal(row, 4, key)[0].double(), torch.tensor(expected).double(), rtol=1e-6, atol=1e-7
    )


def test_make_key(backend: ModuleType) -> None:
    assert backend.make_key(-1, 5).tolist() == [-1, 5]
    assert backend.make_key(2**64 - 1, 2**32 - 1).tolist() == [-1, 2**32 - 1]
    assert backend.make_key(2**63, 0).tolist() == [-(2**63), 0]
    assert backend.make_key(7, 0).dtype == torch.int64


def test_logarithm_over_its_whole_domain() -> None:
    k = torch.arange(2**23, dtype=torch.int64)
    u = ((2 * k + 1).double() / 2**24).float()
    truth = torch.log(u.double())
    value = _log(u)
    assert bool((value < 0).all())  # so that no square root has a negative argument
    assert float(((value.double() - truth) / truth).abs().max()) < 1.2e-7


def test_cosine_and_sine_over_their_whole_domain() -> None:
    k = torch.arange(2**23, dtype=torch.int64)
    u = ((2 * k + 1).double() / 2**24).float()
    turn = 2 * math.pi * u.double()
    cosine, sine = _cos_sin_turn(u)
    assert float((cosine.double() - torch.cos(turn)).abs().max()) < 1.2e-7
    assert float((sine.double() - torch.sin(turn)).abs().max()) < 1.2e-7


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("size", "columns"), [(0, 5), (1, 1), (1, 4), (3, 7), (17, 2), (101, 119), (8, 1029)])
def test_native_is_the_reference_bit_for_bit(
    native: ModuleType, device: torch.device, name: str, size: int, columns: int
) -> None:
    rows, key = row_numbers(size, 11), make_key(3, 2)
    result = getattr(native, name)(rows.to(device), columns, key.to(device))
    assert result.dtype == torch.float32
    assert result.shape == (size, columns)
    assert torch.equal(result.cpu(), getattr(reference, name)(rows, columns, key))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("step", STEPS)
def test_native_is_the_reference_for_any_key(
    native: ModuleType, device: torch.device, name: str, seed: int, step: int
) -> None:
    rows = torch.cat([row_numbers(5), row_numbers(5, 2**31 - 2), row_numbers(5, 2**32 - 2), row_numbers(5, 2**40 + 7)])
    key = native.make_key(seed, step)
    assert torch.equal(key, make_key(seed, step))
    assert torch.equal(
        getattr(native, name)(rows.to(device), 9, key.to(device)).cpu(), getattr(reference, name)(rows, 9, key)
    )


def test_native_is_the_reference_over_many_numbers(native: ModuleType, device: torch.device) -> None:
    rows, key = row_numbers(40_003), make_key(42, 1)
    assert torch.equal(native.normal(rows.to(device), 53, key.to(device)).cpu(), reference.normal(rows, 53, key))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_depends_on_row_and_column_alone(backend: ModuleType, device: torch.device, name: str) -> None:
    draw = getattr(backend, name)
    rows, key = row_numbers(1001, 2**32 - 500).to(device), make_key(9, 4, device)
    whole = draw(rows, 13, key)
    assert torch.equal(torch.cat([draw(part, 13, key) for part in rows.split([1, 400, 7, 593])]), whole)
    order = torch.randperm(1001, generator=torch.Generator().manual_seed(0)).to(device)
    assert torch.equal(draw(rows[order], 13, key), whole[order])
    assert torch.equal(draw(rows, 5, key), whole[:, :5])
    assert torch.equal(draw(strided(rows), 13, key), whole)
    repeated = draw(rows[:1].expand(3), 13, key)
    assert torch.equal(repeated, whole[:1].expand(3, 13))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_do_not_depend_on_threads(backend: ModuleType, name: str) -> None:
    rows, key = row_numbers(20_001), make_key(5, 0)
    results = []
    for count in (1, 2):
        with threads(count):
            results.append(getattr(backend, name)(rows, 21, key))
    assert torch.equal(*results)


def test_reference_is_equal_on_every_device(device: torch.device) -> None:
    rows, key = row_numbers(5001, 2**32 - 2500), make_key(-8, 2**32 - 1)
    for name in FUNCTIONS:
        draw = getattr(reference, name)
        assert torch.equal(draw(rows.to(device), 37, key.to(device)).cpu(), draw(rows, 37, key))


SIMD_SCRIPT = """
import sys, torch
from missdiff_fast import ops
rows = torch.arange(2**32 - 999, 2**32 + 1000)
torch.save([ops.normal(rows, 37, ops.make_key(-3, 8)), ops.uniform(rows, 37, ops.make_key(4, 9))], sys.argv[1])
"""


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_numbers_do_not_depend_on_the_instruction_set(native: ModuleType, level: str, tmp_path: Path) -> None:
    levels = {"DEFAULT": ["baseline"], "AVX2": ["baseline", "avx2"]}
    here = levels.get(torch.backends.cpu.get_cpu_capability(), ["baseline", "avx2", "avx512"])
    if level not in here:
        pytest.skip(f"this processor has no {level}")
    environment = {**os.environ, "MISSDIFF_SIMD": level, "PYTHONPATH": os.pathsep.join(sys.path)}
    file = tmp_path / "numbers.pt"
    subprocess.run([sys.executable, "-c", SIMD_SCRIPT, str(file)], env=environment, check=True, timeout=120)
    normal, uniform = torch.load(file)
    rows = row_numbers(1999, 2**32 - 999)
    assert torch.equal(normal, reference.normal(rows, 37, make_key(-3, 8)))
    assert torch.equal(uniform, reference.uniform(rows, 37, make_key(4, 9)))


def test_uniform_is_uniform_and_open(backend: ModuleType) -> None:
    stats = pytest.importorskip("scipy.stats")
    u = backend.uniform(row_numbers(100_000), 5, make_key(1, 1)).double()
    assert 0 < float(u.min()) < 1e-4
    assert 1 - 1e-4 < float(u.max()) < 1
    assert torch.equal((u * 2**24) % 2, torch.ones_like(u))
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-3
    assert float((u.mean(0) - 0.5).abs().max()) < 5 / math.sqrt(12 * 100_000)


def test_normal_is_normal(backend: ModuleType) -> None:
    stats = pytest.importorskip("scipy.stats")
    n = 500_000
    x = backend.normal(row_numbers(n // 5), 5, make_key(2, 7)).double().flatten()
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:  # variance of x^power
        assert abs(float((x**power).mean()) - moment) < 5 * math.sqrt(variance / n)
    assert stats.kstest(x.numpy(), "norm").pvalue > 1e-3
    assert 4 < float(x.abs().max()) < 5.9


def correlation(a: Tensor, b: Tensor) -> float:
    return abs(float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]))


def test_normal_is_independent(backend: ModuleType) -> None:
    n = 60_000
    rows = row_numbers(n)
    x = backend.normal(rows, 8, make_key(2, 7)).double()
    columns = torch.corrcoef(x.T) - torch.eye(8, dtype=torch.float64)
    assert float(columns.abs().max()) < 5 / math.sqrt(n)
    squares = torch.corrcoef((x**2).T) - torch.eye(8, dtype=torch.float64)
    assert float(squares.abs().max()) < 5 / math.sqrt(n)
    bound = 5 / math.sqrt(8 * n)
    assert correlation(x[1:], x[:-1]) < bound
    for key in (make_key(2, 8), make_key(3, 7), make_key(2 + 2**32, 7)):
        assert correlation(x, backend.normal(rows, 8, key).double()) < bound
    assert correlation(x, backend.normal(rows + 2**32, 8, make_key(2, 7)).double()) < bound


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_arguments_are_named(native: ModuleType, name: str) -> None:
    draw, rows, key = getattr(native, name), row_numbers(3), make_key(0, 0)
    for arguments, word in [
        ((rows.int(), 2, key), "rows"),
        ((rows[None], 2, key), "rows"),
        ((rows, -1, key), "columns"),
        ((rows, 2, key.int()), "key"),
        ((rows, 2, key[:1]), "key"),
    ]:
        with pytest.raises((ValueError, TypeError), match=word):
            draw(*arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_registration(native: ModuleType, device: torch.device, name: str) -> None:
    op = getattr(torch.ops.missdiff_fast, name).default
    torch.library.opcheck(op, (row_numbers(5).to(device), 7, make_key(0, 1, device)))
    torch.library.opcheck(op, (row_numbers(0).to(device), 7, make_key(0, 1, device)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiles_whole(native: ModuleType, device: torch.device, name: str, fresh_compiler: None) -> None:
    draw = getattr(native, name)
    compiled = torch.compile(lambda rows, key: draw(rows, 7, key) * 2, fullgraph=True, backend="aot_eager")
    for size in (5, 9):
        rows, key = row_numbers(size).to(device), make_key(0, 1, device)
        assert torch.equal(compiled(rows, key), draw(rows, 7, key) * 2)
