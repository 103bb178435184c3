"""Measurements on a card, their order, and the least time of an op there.

    PYTHONPATH=.:bench python bench/plan.py

prints the predictions. They follow from cards' nominal rates: the greater of bytes by the memory's rate and of FLOP by
the rate of dense bf16 products, as if both went on at once and nothing else took any time. No kernel reaches them; an
op whose bytes are in the cache may seem to pass them.
"""

from __future__ import annotations

from dataclasses import dataclass

from store import markdown_table
from timing import FULL_SIZE
from workload import LAYOUT

from missdiff_fast.config import SolverConfig

STEPS = SolverConfig().steps
C, K, J, D = LAYOUT.num_continuous, LAYOUT.num_categorical, LAYOUT.num_columns, LAYOUT.width
BLOCKS, EMBEDDING = 3, 64
WIDTHS = (96, 256)
BATCHES = (4096, 256)
PAPER_STEPS, PAPER_ALL = 500, 62_500

# Benchmark files in order of importance, with the seconds that must be left for one of their benchmarks to begin.
# Benchmarks that compile come after all others, since compiling takes far longer than measuring.
ORDER = {"bench_card": 5, "bench_random": 2, "bench_perturb": 2, "bench_loss": 2, "bench_step": 2}
ORDER |= {"bench_codec_decode": 2, "bench_mlp_predict": 2, "bench_mlp_sample": 3, "bench_mlp_train_step": 4}
ORDER |= {"bench_end_to_end": 15}
COMPILING = {"bench_mlp_sample": 12, "bench_mlp_train_step": 18}
COMPILING_OP = 8
# A benchmark that takes so many times these seconds does not end; by the type of the device, as a CPU is only a trial.
PATIENCE = {"cuda": 10, "cpu": 100}


@dataclass(frozen=True)
class Card:
    """Nominal rates of a card.

    Parameters
    ----------
    name : str
    memory : float
        Bytes a second.
    products : float
        FLOP a second, dense bf16.
    """

    name: str
    memory: float
    products: float


CARDS = (Card("H100", 3.35e12, 990e12), Card("H200", 4.8e12, 990e12))


@dataclass(frozen=True)
class Prediction:
    """The work of an op on some rows, in bytes to move and FLOP to compute."""

    rows: int
    bytes: int
    flops: int

    def milliseconds(self, card: Card) -> float:
        """The least time on a card that does nothing else."""
        return 1e3 * max(self.bytes / card.memory, self.flops / card.products)


# Bytes read and written for each row, as docs/benchmarks.md counts them.
_BATCH = 8 + J + 4 * C + 2 * K
_BYTES = {
    "perturb": _BATCH + 8 + 4 * D,
    "masked_loss": _BATCH + 4 * C + 4 + 2 * 4 * (D + C),
    "masked_loss, bf16": _BATCH + 4 * C + 4 + 2 * 2 * (D + C),
    "masked_noise_loss": _BATCH + 2 * 4 * D,
    "masked_noise_loss, bf16": _BATCH + 2 * 2 * D,
    "step": J + 20 * D,
    "step, bf16": J + 18 * D,
    "step with noise": J + 20 * D,
    "decode": 4 * D + 4 * C + 2 * K,
    "uniform": 8 + 4 * D,
    "normal": 8 + 4 * D,
    "mlp_predict": J + 4 * D + 4 * (D + C),
}
OPS = tuple(_BYTES)


def sampler(width: int) -> str:
    """The sampler's name with a network of a width."""
    return f"mlp_sample, width {width}"


def training(batch: int) -> str:
    """The training step's name with a batch."""
    return f"training step, {batch:,} rows"


LOOPS = (*map(sampler, WIDTHS), *map(training, BATCHES))


def products(width: int, inputs: int) -> int:
    """Multiplications of a row's pass through the network, without those of its noise level."""
    return inputs * width + BLOCKS * 2 * width * 2 * width + width * (D + C)


def predict(op: str, rows: int = FULL_SIZE) -> Prediction:
    """The work of one of `OPS` or `LOOPS` for so many rows, of which a training step takes no more than its batch.

    A sampler does not count the states' share of the first layer, which no step changes. The training step computes
    forward, the weights' gradients, and the rows' gradients except those of the inputs.
    """
    if op in LOOPS and op.startswith("mlp_sample"):
        width = WIDTHS[LOOPS.index(op)]
        return Prediction(rows, rows * (8 + J + 8 * D), 2 * rows * STEPS * products(width, D))
    if op in LOOPS:
        batch, width = min(rows, BATCHES[LOOPS.index(op) - len(WIDTHS)]), WIDTHS[0]
        level = EMBEDDING * width + width * width
        entering = (D + 2 * J) * width + EMBEDDING * width  # inputs, which need no gradient
        flops = 2 * batch * (3 * (products(width, D + 2 * J) + level) - entering)
        moved = _BYTES["perturb"] + _BYTES["masked_loss"] + J + 4
        return Prediction(batch, batch * moved, flops)
    flops = 2 * rows * products(WIDTHS[0], D + 2 * J) if op == "mlp_predict" else 0
    return Prediction(rows, rows * _BYTES[op], flops)


def seconds_of(file: str, compiles: bool) -> int:
    """Seconds that must be left for a benchmark of a file to begin."""
    return COMPILING.get(file, COMPILING_OP) if compiles else ORDER[file]


def predictions() -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of predictions."""
    rows = []
    for name in (*OPS, *LOOPS):
        work, (op, comma, kind) = predict(name), name.partition(",")
        row = [f"`{op}`{comma}{kind}" if name in OPS else name, f"{work.rows:,}"]
        row += [f"{work.bytes / 1e6:,.1f}", f"{work.flops / 1e9:,.1f}"]
        rows.append(row + [f"{work.milliseconds(card):.4f}" for card in CARDS])
    return ["", "rows", "MB", "GFLOP", *(f"{card.name}, ms" for card in CARDS)], rows


if __name__ == "__main__":
    rates = ", ".join(f"{card.name} {card.memory / 1e12:g} TB/s and {card.products / 1e12:g} TFLOP/s" for card in CARDS)
    print(f"least times at nominal rates: {rates}\n{markdown_table(*predictions())}")
