"""What the card can do at most, and whether its noise is the CPU's."""

from __future__ import annotations

from typing import Any

import torch

from gpu.clock import Clock, precision
from gpu.plan import D
from missdiff_fast import ops
from missdiff_fast.ops.reference import make_key

NUMBERS = 1_000_000


def ceilings(clock: Clock) -> dict[str, Any]:
    """Bytes a second of a copy, read and written ones counted, and FLOP a second of square products of random data."""
    device = clock.device
    size, side = (1 << 29, 8192) if clock.on_card else (1 << 22, 512)  # 2 GiB each way on a card
    source = torch.randn(size, device=device)
    target = torch.empty_like(source)
    seconds = clock.take_turns({"copy": lambda: target.copy_(source)}, alone=True)["copy"]
    found: dict[str, Any] = {"copy": 2 * source.nbytes / seconds, "side": side}
    for name, dtype in (("tf32", torch.float32), ("bf16", torch.bfloat16)):
        left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(left)
        with precision("tf32", device):
            times = clock.take_turns({name: lambda a=left, b=right, c=out: torch.mm(a, b, out=c)}, alone=True)
        found[name] = 2 * side**3 / times[name]
    return found


def noise_bits(device: torch.device) -> dict[str, Any]:
    """Whether so many numbers of each kind are equal on the device and on the CPU; an AssertionError if not."""
    count = -(-NUMBERS // D)
    found: dict[str, Any] = {"numbers": count * D}
    for name in ("uniform", "normal"):
        rows, key = torch.arange(2**33, 2**33 + count), make_key(2**63 + 12345, 7)
        function = getattr(ops, name)
        found[name] = torch.equal(function(rows.to(device), D, key.to(device)).cpu(), function(rows, D, key))
    if not (found["uniform"] and found["normal"]):
        raise AssertionError(f"noise is not the CPU's: {found}")
    return found
