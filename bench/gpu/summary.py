"""A card's figures as a short table for the terminal, and as the page has them.

PYTHONPATH=.:bench python bench/gpu/summary.py FILE.json
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu.plan import CARDS, LOOPS, OPS, Card, predict

Run = Mapping[str, Any]

NONE_MEASURED = "No GPU figure has been measured yet: what follows is predicted, and the columns for figures are empty."
_WIDTH = 120


def rate(name: str, found: Run, run: Run) -> tuple[str, str]:
    """What ours reaches, and its share of what was measured at most: of a copy, or of bf16 products for loops."""
    seconds, ceilings = found["seconds"]["native"], run.get("ceilings", {})
    kind, unit, scale, top = ("flops", "TFLOP/s", 1e12, "bf16") if name in LOOPS else ("bytes", "GB/s", 1e9, "copy")
    value = found[kind] / seconds
    share = f"{100 * value / ceilings[top]:.0f} %" if top in ceilings else "-"
    return f"{value / scale:,.4g} {unit}", share


def least(found: Run, *, compiled: bool) -> tuple[str, float] | None:
    """The rival that is the fastest beside ours: its name, and how many times as long as ours it takes."""
    rivals = {
        name: ratio
        for name, ratio in found["ratios"].items()
        if name.startswith("compile") == compiled and not name.startswith("native")
    }
    return min(rivals.items(), key=lambda item: item[1]) if rivals else None


def nominal(run: Run) -> Card:
    """The card whose nominal rates predict; the last where the run's is none of them."""
    return next((card for card in CARDS if card.name in run["card"]["name"]), CARDS[-1])


def describe(run: Run) -> str:
    """One line: card, versions, commit."""
    card, versions = run["card"], run["versions"]
    return (
        f"{card['name']}, driver {card.get('driver', 'none')}, CUDA {versions['cuda']}, nvcc {versions['nvcc']}, "
        f"torch {versions['torch']}, Python {versions['python']}, "
        f"missdiff_fast {versions['missdiff_fast']} at {run['commit']}"
    )


def ceilings(run: Run) -> str:
    """One line: what the card can do, and whether its noise is the CPU's."""
    top, noise = run.get("ceilings"), run.get("noise")
    parts = []
    if top:
        products = ", ".join(f"{top[kind] / 1e12:,.4g} TFLOP/s {kind}" for kind in ("bf16", "tf32"))
        parts.append(f"copy {top['copy'] / 1e9:,.0f} GB/s; products {products}")
    if noise:
        parts.append(f"{noise['numbers']:,} normal and uniform numbers are the CPU's bit for bit")
    return "; ".join(parts) or "no ceilings"


def whole(run: Run) -> list[str]:
    """A line for each whole model."""
    found, lines = run.get("whole", {}), []
    if "mimic" in found:
        one = found["mimic"]
        peak = f", peak {one['peak_allocated'] / 1e9:.2f} GB" if "peak_allocated" in one else ""
        lines.append(
            f"simulated MIMIC4ED, {one['rows']:,} rows: fit {one['fit']:.1f} s, as many drawn in {one['sample']:.2f} s "
            f"(the first time {one['first_sample']:.2f} s){peak}"
        )
    for one in found.get("census", {}).get("runs", []):
        lines.append(
            f"Census, seed {one['seed']}: fit {one['fit']:.1f} s, {found['census']['rows']:,} rows drawn in "
            f"{one['sample']:.3f} s; fidelity {one['overall']:.1f} (shapes {one['shapes']:.1f}, trends "
            f"{one['trends']:.1f})"
        )
    if "paper" in found:
        one = found["paper"]
        lines.append(
            f"paper's preset on Census: {1e3 * one['seconds_a_step']:.2f} ms a training step, {one['steps']} steps; "
            f"extrapolated to all {one['extrapolated_steps']:,}: {one['extrapolated_seconds']:.0f} s"
        )
    return lines


def lines(run: Run) -> list[str]:
    """A table of less than 60 lines of 120 columns."""
    card, ops = nominal(run), run.get("ops", {})
    head = f"{'':<26}{'ms':>10}{'predicted':>10}{'rate':>16}{'share':>8}  rivals / ours"
    rates = f"{run['rows']:,} rows; predicted by {card.name}'s nominal rates"
    out = [part for line in (describe(run), ceilings(run), rates) for part in textwrap.wrap(line, _WIDTH)] + [head]
    for name in (*OPS, *LOOPS):
        if name not in ops:
            continue
        found = ops[name]
        predicted = predict(name, found["rows"]).milliseconds(card)
        reached, share = rate(name, found, run)
        start = f"{name:<26}{1e3 * found['seconds']['native']:>10.4f}{predicted:>10.4f}{reached:>16}{share:>8}  "
        ratios = ", ".join(f"{rival} {ratio:.2f}" for rival, ratio in found["ratios"].items())
        if "errors" in found:
            ratios += "; relative errors " + ", ".join(f"{who} {error:.1e}" for who, error in found["errors"].items())
        out += textwrap.wrap(start + ratios, _WIDTH, subsequent_indent=" " * 30, drop_whitespace=True)
    out += [part for line in whole(run) for part in textwrap.wrap(line, _WIDTH)]
    rivals = [f"{name}: {rival}" for name, found in ops.items() for rival in found.get("failed", {})]
    interrupted = [run["interrupted"]] if "interrupted" in run else []
    for title, names in (
        ("FAILED", [*run["failed"], *rivals]),
        ("interrupted", interrupted),
        ("not measured", run["skipped"]),
    ):
        if names:
            out += textwrap.wrap(f"{title}: {'; '.join(names)}", _WIDTH, max_lines=4)
    return out


def markdown(runs: Sequence[Run]) -> str:
    """The table of the page: predicted, and what was measured on each card."""
    header = ["", "rows", "MB", "GFLOP", *(f"{card.name}, ms" for card in CARDS)]
    measured = ["ms", "rate", "share", "eager / native", "compile / native"]
    for run in runs or [{"card": {"name": "measured"}}]:
        header += [f"{run['card']['name']}: {column}" for column in measured]
    rows = []
    for name in (*OPS, *LOOPS):
        work = predict(name)
        row = [
            f"`{name.partition(',')[0]}`{''.join(name.partition(',')[1:])}" if name in OPS else name,
            f"{work.rows:,}",
        ]
        row += [f"{work.bytes / 1e6:,.1f}", f"{work.flops / 1e9:,.1f}"]
        row += [f"{work.milliseconds(card):.4f}" for card in CARDS]
        for run in runs or [{}]:
            row += _cells(name, run)
        rows.append(row)
    table = "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *rows))
    if not runs:
        return f"{NONE_MEASURED}\n\n{table}"
    notes = [f"{describe(run)}: {ceilings(run)}.\n\n" + "\n".join(f"- {line}" for line in whole(run)) for run in runs]
    return "\n\n".join([table, *(note.strip() for note in notes)])


def _cells(name: str, run: Run) -> list[str]:
    """What was measured of an op; empty where it was not."""
    found = run.get("ops", {}).get(name)
    if found is None or found["rows"] != predict(name).rows:
        return [""] * 5
    rivals = [least(found, compiled=compiled) for compiled in (False, True)]
    ratios = ["" if rival is None else f"{rival[1]:.2f} ({rival[0].partition(',')[0]})" for rival in rivals]
    return [f"{1e3 * found['seconds']['native']:.4f}", *rate(name, found, run), *ratios]


if __name__ == "__main__":
    print("\n".join(lines(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
