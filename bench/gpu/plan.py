"""What is measured on a card, and the least time of an op there by the bytes it moves and the products it is made of.

    PYTHONPATH=.:bench python bench/gpu/plan.py

prints both. Predictions are of cards' nominal rates: the greater of bytes by memory's rate and of FLOP by that of dense
bf16 products, as if both went on at once and nothing else took any time. No kernel reaches them; where what it moves is
in the cache, one may seem to pass them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from timing import FULL_SIZE
from workload import LAYOUT

from missdiff_fast.config import SolverConfig

STEPS = SolverConfig().steps
C, K, J, D = LAYOUT.num_continuous, LAYOUT.num_categorical, LAYOUT.num_columns, LAYOUT.width
BLOCKS, EMBEDDING = 3, 64
WIDTHS = (96, 256)
BATCHES = (4096, 256)
PAPER_STEPS, PAPER_ALL = 500, 62_500


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
    """The work of an op, and the least time that it takes by it.

    Parameters
    ----------
    op : str
    rows : int
    bytes, flops : int
        That have to be moved and computed.
    """

    op: str
    rows: int
    bytes: int
    flops: int

    def milliseconds(self, card: Card) -> float:
        """On a card that does nothing else."""
        return 1e3 * max(self.bytes / card.memory, self.flops / card.products)


# Bytes a row, as docs/benchmarks.md counts them: what is read, and what is written.
_BATCH = 8 + J + 4 * C + 2 * K
_BYTES = {
    "perturb": _BATCH + 8 + 4 * D,
    "perturb, bf16": _BATCH + 8 + 2 * D,
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
    """Multiplications of a row's pass through the network, but for those of its noise level."""
    return inputs * width + BLOCKS * 2 * width * 2 * width + width * (D + C)


def predict(op: str, rows: int = FULL_SIZE) -> Prediction:
    """The work of one of `OPS` or `LOOPS` for so many rows, of which a training step takes no more than its batch.

    Of the network's passes what the states contribute is left out where no step changes it, as in the CPU's tables; the
    training step computes forward, for the weights' gradients, and for the rows' but those that enter.
    """
    if op in LOOPS and op.startswith("mlp_sample"):
        width = WIDTHS[LOOPS.index(op)]
        return Prediction(op, rows, rows * (8 + J + 8 * D), 2 * rows * STEPS * products(width, D))
    if op in LOOPS:
        batch, width = min(rows, BATCHES[LOOPS.index(op) - len(WIDTHS)]), WIDTHS[0]
        level = EMBEDDING * width + width * width
        entering = (D + 2 * J) * width + EMBEDDING * width  # whose inputs need no gradient
        flops = 2 * batch * (3 * (products(width, D + 2 * J) + level) - entering)
        moved = _BYTES["perturb"] + _BYTES["masked_loss"] + J + 4
        return Prediction(op, batch, batch * moved, flops)
    flops = 2 * rows * products(WIDTHS[0], D + 2 * J) if op == "mlp_predict" else 0
    return Prediction(op, rows, rows * _BYTES[op], flops)


@dataclass(frozen=True)
class Part:
    """One thing to measure.

    Parameters
    ----------
    name : str
    what : str
        One line for the reader.
    seconds : float
        That have to be left for it to begin.
    """

    name: str
    what: str
    seconds: float


def _compiling(names: tuple[str, ...], seconds: float) -> list[Part]:
    return [Part(f"compile: {name}", f"torch.compile's times of {name}, beside ours", seconds) for name in names]


# In the order of importance; what is compiled comes late, as to compile takes far longer than to measure.
PARTS = (
    Part("ceilings", "the rate of a copy, and of products of bf16 and TF32", 5),
    Part("noise bits", "whether noise is the CPU's, bit for bit", 3),
    *(Part(name, "the op against eager PyTorch", 3) for name in OPS),
    Part(LOOPS[0], "ten steps against eager and graph-captured PyTorch: fp32, TF32, bf16", 6),
    *(Part(name, "against eager and graph-captured PyTorch, EMA and all", 8) for name in LOOPS[2:]),
    Part("fit and sample", "a simulated table of MIMIC4ED's size: MissDiff.fit, as many rows drawn, peak memory", 20),
    Part("Census", "fit, 16,000 rows drawn, fidelity; three seeds", 15),
    Part("paper", f"{PAPER_STEPS} training steps of the paper's preset on Census", 10),
    Part(LOOPS[1], "the same with a wider network", 6),
    *_compiling((LOOPS[0], *LOOPS[2:]), 35),
    *_compiling(OPS[:10], 10),
    *_compiling((LOOPS[1],), 35),
)


def show(write: Callable[[str], object] = print) -> None:
    """Print what would be measured and the predictions."""
    write(f"{'what is measured, in order':<36}least seconds left")
    for part in PARTS:
        write(f"{part.name:<36}{part.seconds:>4.0f}  {part.what}")
    write("")
    rates = ", ".join(f"{card.name} {card.memory / 1e12:g} TB/s and {card.products / 1e12:g} TFLOP/s" for card in CARDS)
    write(f"least times at nominal rates: {rates}")
    write(f"{'':<28}{'rows':>9}{'MB':>10}{'GFLOP':>10}" + "".join(f"{f'ms, {card.name}':>12}" for card in CARDS))
    for name in (*OPS, *LOOPS):
        found = predict(name)
        times = "".join(f"{found.milliseconds(card):>12.4f}" for card in CARDS)
        write(f"{name:<28}{found.rows:>9,}{found.bytes / 1e6:>10.1f}{found.flops / 1e9:>10.1f}{times}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    show()
