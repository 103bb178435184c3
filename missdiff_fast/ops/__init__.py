"""The compiled ops. `missdiff_fast.ops.reference`, the same functions in plain PyTorch, defines what they compute.

Importing this package loads nothing compiled: the first call of an op does. It raises ImportError where the extension
does not load, and RuntimeError where the package was installed without it.

Noise is bitwise the reference's, for any batch split and any number of threads. Sums are taken in an order that does
not depend on the number of threads. Shapes: N rows in the table, B in a batch; C continuous and K categorical columns,
J = C + K; D encoded columns. Inputs need not be contiguous unless a function says so. A wrong dtype raises TypeError
and a wrong shape ValueError, both naming the argument. Rows and codes out of range raise RuntimeError from the kernel,
which alone reads them. An argument that needs a gradient which the op does not compute raises ValueError.

On a CUDA device all arguments must be there. The kernels run on the current stream and can be captured in a CUDA graph:
the host does not wait, and the device reads keys, coefficients and offsets. A kernel that finds a number out of range
traps: the next CUDA call reports an error, after which the process cannot use the device.
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
