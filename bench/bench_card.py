"""The most that a card can do, and whether its noise is the CPU's."""

from __future__ import annotations

import torch
from card import CardRun
from clock import precision
from plan import D

from missdiff_fast import ops
from missdiff_fast.ops.reference import make_key

NUMBERS = 1_000_000


def bench_ceilings_on_card(card: CardRun) -> None:
    """Bytes a second of a copy, read and written ones counted, and FLOP a second of square products of random data."""
    device, clock = card.device, card.clock
    size, side = (1 << 22, 512) if card.trial else (1 << 29, 8192)  # 2 GiB each way on a card
    source = torch.randn(size, device=device)
    target = torch.empty_like(source)
    seconds = clock.take_turns({"copy": lambda: target.copy_(source)}, queued=True)["copy"]
    found: dict[str, float] = {"copy": 2 * source.nbytes / seconds, "side": side}
    for name, dtype in (("tf32", torch.float32), ("bf16", torch.bfloat16)):
        left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(left)
        with precision("tf32", device):
            times = clock.take_turns({name: lambda a=left, b=right, c=out: torch.mm(a, b, out=c)}, queued=True)
        found[name] = 2 * side**3 / times[name]
    card.note("ceilings", found)


def bench_noise_bits_on_card(card: CardRun) -> None:
    """The same numbers of each kind on the device and on the CPU, bit for bit."""
    count = -(-NUMBERS // D)
    rows, key = torch.arange(2**33, 2**33 + count), make_key(2**63 + 12345, 7)
    for function in (ops.uniform, ops.normal):
        assert torch.equal(function(rows.to(card.device), D, key.to(card.device)).cpu(), function(rows, D, key))
    card.note("noise", {"numbers": count * D})
