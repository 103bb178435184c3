"""Every op in plain PyTorch: the specification that the kernels are tested against.

The functions have the names and arguments of those in `missdiff_fast.ops`, run on any device and need nothing compiled.
Shapes: N rows in the table, B in a batch; C continuous and K categorical columns, J = C + K; D encoded columns.

Random numbers are Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with counter
``(row low, row high, column // 4, step)`` and key ``(seed low, seed high)``; the column's last two bits select one of
the four words. They become uniform and normal numbers in float32, with every operation rounded once and no fused
multiply-add, so that every IEEE 754 processor gives the same bits.
"""

from __future__ import annotations

from missdiff_fast.ops.reference.adamw import adamw
from missdiff_fast.ops.reference.codec import decode, encode
from missdiff_fast.ops.reference.loss import masked_loss, masked_noise_loss
from missdiff_fast.ops.reference.mlp import mlp_predict, mlp_sample, mlp_train_step
from missdiff_fast.ops.reference.perturb import perturb
from missdiff_fast.ops.reference.random import make_key, normal, philox, philox_words, uniform
from missdiff_fast.ops.reference.step import step

__all__ = [
    "adamw",
    "decode",
    "encode",
    "make_key",
    "masked_loss",
    "masked_noise_loss",
    "mlp_predict",
    "mlp_sample",
    "mlp_train_step",
    "normal",
    "perturb",
    "philox",
    "philox_words",
    "step",
    "uniform",
]
