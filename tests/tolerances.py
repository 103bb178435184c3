"""Tolerances between a kernel and the reference, for every op and dtype. Tests of ops use these and no others.

Run as a script, it prints the table of docs/numerics.md.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Tolerance(NamedTuple):
    """Bounds of one comparison."""

    relative: float  # of each element
    absolute: float  # of each element, as a fraction of the largest expected one
    aggregate: float  # norm of the difference over norm of the expected, which shows a bias


EXACT = Tolerance(0.0, 0.0, 0.0)

TOLERANCES: dict[tuple[str, torch.dtype], Tolerance] = {
    ("uniform", torch.float32): EXACT,
    ("normal", torch.float32): EXACT,
    ("perturb", torch.float32): Tolerance(2.5e-7, 1e-7, 1e-7),
    ("perturb", torch.float64): Tolerance(5e-16, 2e-16, 2e-16),
    ("masked_loss", torch.float32): Tolerance(1e-6, 0.0, 1e-6),
    ("masked_loss", torch.float64): Tolerance(1e-13, 0.0, 1e-13),
    ("masked_loss", torch.bfloat16): Tolerance(1e-6, 0.0, 1e-6),
    ("masked_loss.grad", torch.float32): Tolerance(1e-6, 5e-7, 5e-7),
    ("masked_loss.grad", torch.float64): Tolerance(1e-14, 1e-15, 1e-15),
    ("masked_loss.grad", torch.bfloat16): Tolerance(2**-7, 5e-7, 5e-4),
    ("masked_noise_loss", torch.float32): Tolerance(1e-6, 0.0, 1e-6),
    ("masked_noise_loss", torch.float64): Tolerance(1e-13, 0.0, 1e-13),
    ("masked_noise_loss", torch.bfloat16): Tolerance(1e-6, 0.0, 1e-6),
    ("masked_noise_loss.grad", torch.float32): Tolerance(1e-6, 1e-7, 3e-7),
    ("masked_noise_loss.grad", torch.float64): Tolerance(1e-14, 1e-15, 1e-15),
    ("masked_noise_loss.grad", torch.bfloat16): Tolerance(2**-7, 1e-7, 5e-4),
    ("step", torch.float32): Tolerance(1e-6, 3e-7, 3e-7),
    ("step", torch.float64): Tolerance(1e-14, 1e-15, 1e-15),
    ("mlp_predict", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("mlp_sample", torch.float32): Tolerance(1e-5, 2e-6, 1e-6),
    ("mlp_train_step", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("mlp_train_step.grad", torch.float32): Tolerance(1e-4, 2e-6, 2e-6),
    ("adamw", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("mlp_input", torch.float32): Tolerance(1e-6, 3e-7, 3e-7),
    ("mlp_loss", torch.float32): Tolerance(1e-6, 0.0, 1e-6),
    ("mlp_loss.grad", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("norm_forward", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("norm_backward", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("silu", torch.float32): Tolerance(1e-5, 1e-6, 1e-6),
    ("column_sums", torch.float32): Tolerance(1e-5, 2e-6, 1e-6),
    ("encode", torch.float32): EXACT,
    ("decode", torch.float32): EXACT,
    ("decode", torch.float64): EXACT,
}


def assert_close(op: str, actual: Tensor, expected: Tensor, dtype: torch.dtype | None = None) -> None:
    """Compare a result with the expected one, on any devices; NaN equals NaN.

    Parameters
    ----------
    op : str
        First half of a key of `TOLERANCES`.
    actual, expected : Tensor
        Of the same shape; ``expected`` may have a wider dtype.
    dtype : torch.dtype, optional
        Second half of the key; ``actual``'s dtype by default.
    """
    allowed = TOLERANCES[op, dtype or actual.dtype]
    actual, expected = actual.cpu(), expected.cpu()
    assert actual.shape == expected.shape, f"{op}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if allowed == EXACT:
        assert torch.equal(actual, expected), f"{op}: {int((actual != expected).sum())} elements are not equal"
        return
    actual, expected = actual.double(), expected.double()
    assert torch.equal(actual.isnan(), expected.isnan()), f"{op}: NaN in different places"
    actual, expected = actual.nan_to_num(nan=0.0), expected.nan_to_num(nan=0.0)
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=allowed.relative, atol=allowed.absolute * scale)
    error, norm = float(torch.dist(actual, expected)), float(expected.norm())
    assert error <= allowed.aggregate * norm, f"{op}: aggregate error {error / norm:.3g} > {allowed.aggregate:.3g}"


def markdown() -> str:
    """The tolerances as a table for docs/numerics.md."""
    lines = [
        "| op | dtype | each element, relative | each element, of the largest | whole, relative |",
        "|---|---|---|---|---|",
    ]
    for (op, dtype), allowed in TOLERANCES.items():
        bounds = "bit for bit | | " if allowed == EXACT else " | ".join(f"{bound:.2g}" for bound in allowed) + " "
        lines.append(f"| {op} | {str(dtype).removeprefix('torch.')} | {bounds}|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
