"""A card's figures as a short table for the terminal, and as the page has them.

PYTHONPATH=.:bench python bench/gpu/summary.py FILE.json
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import store
from plan import CARDS, LOOPS, OPS, Card, predict, predictions

Run = Mapping[str, Any]

NONE_MEASURED = "No GPU figure has been measured yet: the table has predictions, and its columns for figures are empty."
_WIDTH = 120


def rate(name: str, run: Run) -> tuple[str, str]:
    """The native rate, and its share of the most that was measured: of a copy, or of bf16 products for loops."""
    work, ceilings = predict(name, run["rows"]), run.get("ceilings", {})
    seconds = run["ops"][name]["seconds"]["native"]
    done, unit, scale, top = (
        (work.flops, "TFLOP/s", 1e12, "bf16") if name in LOOPS else (work.bytes, "GB/s", 1e9, "copy")
    )
    share = f"{100 * done / seconds / ceilings[top]:.0f} %" if top in ceilings else "-"
    return f"{done / seconds / scale:,.4g} {unit}", share


def least(found: Run, *, compiled: bool) -> str:
    """The fastest rival beside the native op: how many times as long it takes, and its name; empty without one."""
    rivals = {
        name: ratio
        for name, ratio in found["ratios"].items()
        if name.startswith("compile") == compiled and not name.startswith("native")
    }
    name = min(rivals, key=rivals.__getitem__, default="")
    return f"{rivals[name]:.2f} ({name.partition(',')[0]})" if name else ""


def nominal(run: Run) -> Card:
    """The card whose nominal rates predict; the last one for a card that is not listed."""
    return next((card for card in CARDS if card.name in run["card"]["name"]), CARDS[-1])


def ceilings(run: Run) -> str:
    """One line: the most that the card can do, and whether its noise is the CPU's."""
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
    lines = []
    if "mimic" in run:
        one = run["mimic"]
        peak = f", peak {one['peak_allocated'] / 1e9:.2f} GB" if "peak_allocated" in one else ""
        lines.append(
            f"simulated MIMIC4ED, {one['rows']:,} rows: fit {one['fit']:.1f} s, as many drawn in {one['sample']:.2f} s "
            f"(the first time {one['first_sample']:.2f} s){peak}"
        )
    for one in run.get("census", {}).get("runs", []):
        lines.append(
            f"Census, seed {one['seed']}: fit {one['fit']:.1f} s, {run['census']['rows']:,} rows drawn in "
            f"{one['sample']:.3f} s; fidelity {one['overall']:.1f} (shapes {one['shapes']:.1f}, trends "
            f"{one['trends']:.1f})"
        )
    if "paper" in run:
        one = run["paper"]
        lines.append(
            f"paper's preset on Census: {1e3 * one['seconds_a_step']:.2f} ms a training step, {one['steps']} steps; "
            f"extrapolated to all {one['all_steps']:,}: {one['all_seconds']:.0f} s"
        )
    return lines


def lines(run: Run) -> list[str]:
    """A table of 120 columns."""
    card = nominal(run)
    out = [store.describe(run), ceilings(run), f"{run['rows']:,} rows; predicted by {card.name}'s nominal rates"]
    out += [f"{'':<26}{'ms':>10}{'predicted':>10}{'rate':>16}{'share':>8}  rivals / native"]
    for name in (*OPS, *LOOPS):
        found = run["ops"].get(name)
        if not found or "native" not in found["seconds"]:
            continue
        predicted, (reached, share) = predict(name, run["rows"]).milliseconds(card), rate(name, run)
        ratios = ", ".join(f"{rival} {ratio:.2f}" for rival, ratio in found["ratios"].items())
        errors = run.get("errors", {}).get(name, {})
        if errors:
            ratios += "; relative errors " + ", ".join(f"{who} {error:.1e}" for who, error in errors.items())
        milliseconds = 1e3 * found["seconds"]["native"]
        out.append(f"{name:<26}{milliseconds:>10.4f}{predicted:>10.4f}{reached:>16}{share:>8}  {ratios}")
    out += whole(run)
    wrapped = [textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 30) for line in out]
    for title, names in (("FAILED", list(run["failed"])), ("not measured", run["pending"])):
        if names:
            wrapped.append(textwrap.wrap(f"{title}: {'; '.join(names)}", _WIDTH, max_lines=4))
    return [line for part in wrapped for line in part]


def markdown(runs: Sequence[Run]) -> str:
    """The table of the page: predicted, and what was measured on each card."""
    header, rows = predictions()
    for run in runs or [{"card": {"name": "measured"}}]:
        measured = ["ms", "rate", "share", "eager / native", "compile / native"]
        header += [f"{run['card']['name']}: {column}" for column in measured]
    for name, row in zip((*OPS, *LOOPS), rows, strict=True):
        for run in runs or [{}]:
            row += _cells(name, run)
    table = store.markdown_table(header, rows)
    if not runs:
        return f"{NONE_MEASURED}\n\n{table}"
    notes = [
        f"{store.describe(run)}: {ceilings(run)}.\n\n" + "\n".join(f"- {line}" for line in whole(run)) for run in runs
    ]
    return "\n\n".join([table, *(note.strip() for note in notes)])


def _cells(name: str, run: Run) -> list[str]:
    """The figures of an op at its full size; empty where there are none."""
    found = run.get("ops", {}).get(name, {"seconds": {}})
    if "native" not in found["seconds"] or predict(name, run["rows"]) != predict(name):
        return [""] * 5
    ratios = [least(found, compiled=compiled) for compiled in (False, True)]
    return [f"{1e3 * found['seconds']['native']:.4f}", *rate(name, run), *ratios]


if __name__ == "__main__":
    print("\n".join(lines(store.read(Path(sys.argv[1]))["full"])))
