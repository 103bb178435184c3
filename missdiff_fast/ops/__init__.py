"""The compiled ops. What they compute is defined by `missdiff_fast.ops.reference`, the same functions in plain PyTorch.

Noise is bitwise the reference's, for any batch split and any number of threads; sums are taken in an order that does
not depend on threads either. Shapes: N rows stored, B in a batch, C continuous and K categorical columns, J = C + K, D
encoded columns. Inputs need not be contiguous. Wrong dtypes raise TypeError and wrong shapes ValueError, both naming
the argument; rows or codes that are out of range raise RuntimeError from the kernel, which alone reads them.

On a CUDA device all arguments have to be there. The kernels are put on the current stream and may be captured in a
CUDA graph: nothing waits for the device, and keys, coefficients and offsets are read there. So a kernel that finds a
number out of range ends with an error that the next call of CUDA reports, after which the process can use no device.
"""

from __future__ import annotations

from missdiff_fast.ops.adamw import adamw
from missdiff_fast.ops.codec import decode, encode
from missdiff_fast.ops.loss import masked_loss, masked_noise_loss
from missdiff_fast.ops.mlp import mlp_predict, mlp_sample, mlp_train_step
from missdiff_fast.ops.perturb import perturb
from missdiff_fast.ops.random import normal, uniform
from missdiff_fast.ops.reference import make_key
from missdiff_fast.ops.step import step

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
    "step",
    "uniform",
]
