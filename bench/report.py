"""Writes the figures of the benchmarks into README.md and docs/benchmarks.md, from what is stored in bench/results.

    python bench/report.py

A page marks the place of a table by ``<!-- bench: NAME -->`` and ``<!-- end -->``; what stands between is replaced. So
no figure of a page is typed, and a test compares the pages with the results. A dash is a figure that is not stored.
docs/shares.png is drawn, too.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import figures
import pandas as pd
import store
from figures import span
from gpu import summary
from matplotlib.figure import Figure
from script import draw
from store import describe, markdown_table
from timing import IMPLEMENTATIONS, OTHERS, STATISTICS

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
PLOT, SHARES = ROOT / "docs" / "sweeps.png", ROOT / "docs" / "shares.png"
# The ops in the order of the pages, and what they are called there.
OPS = {
    "perturb": "`perturb`",
    "masked_loss": "`masked_loss`, forward and backward",
    "masked_noise_loss": "`masked_noise_loss`, forward and backward",
    "step": "`step`",
    "step with noise": "`step` with noise",
    "decode": "`decode`",
    "mlp_train_step": "training step, `mlp_train_step`",
    "mlp_sample": "sampler, `mlp_sample`",
    "mlp_predict": "imputation, `mlp_predict`",
    "codec fit": "codec, fit",
    "codec encode": "codec, encode",
    "codec encode, seed": "codec, encode with a seed",
    "codec decode": "codec, decode",
    "codec round trip": "codec, encode and decode",
    "codec decode_means": "codec, decode means",
    "codec fill": "codec, fill",
    "fit and sample": "fit and sample, end to end",
}
_YARDSTICKS = {"copy": ("bytes", "B"), "sgemm": ("flops", "FLOP"), "noise": ("numbers", " numbers")}
_COLOURS = {"copy": "#0072B2", "sgemm": "#CC79A7", "noise": "#E69F00"}  # as in the sweeps, Okabe and Ito's
_NONE, _UNKNOWN = "-", "Not measured yet."

Run = Mapping[str, Any]


def fill(page: str, blocks: Mapping[str, str]) -> str:
    """The page with every marked place filled; KeyError for one of which there is no block."""
    marked = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}{blocks[found[2]]}\n{found[3]}", page)


def blocks(
    runs: Mapping[str, Run],
    profile: Run,
    scales: Mapping[str, Run],
    speed: pd.DataFrame,
    cards: Sequence[Run] = (),
    *,
    has_plot: bool,
) -> dict[str, str]:
    """The text of every place; ``scales`` by the name of theirs, and a run for each card."""
    full = runs.get("full", {})
    return {
        "times": _measured(full, times),
        "roofline": _measured(full, roofline),
        "check": _measured(runs.get("checks", {}), check),
        "profile": _measured(profile, functions),
        "symbols": _measured(profile, sampled),
        "scale": _measured(scales.get("scale", {}), scale),
        "codec": _measured(scales.get("codec", {}), codec),
        "census": census(speed) if len(speed) else _UNKNOWN,
        "gpu": summary.markdown(cards),
        "sweeps": "![Cost by rows, columns, categories and threads](sweeps.png)" if has_plot else _UNKNOWN,
    }


def _measured(run: Run, table: Callable[[Run], str]) -> str:
    return table(run) if run else _UNKNOWN


def _conditions(run: Run) -> str:
    return f"{run['rows']:,} rows, {STATISTICS[run['statistic']]} of up to {run['rounds']} rounds: {describe(run)}."


def times(run: Run) -> str:
    """Milliseconds, and how many times faster native is than each rival."""
    rivals, rows = _rivals(run), []
    for entry, name in _entries(run):
        milliseconds = {who: 1e3 * seconds for who, seconds in entry["seconds"].items()}
        rows.append([name, *(_number(milliseconds.get(who), 1) for who in ("native", *rivals))])
        rows[-1] += [_number(entry["ratios"].get(rival)) for rival in rivals]
    header = ["ms", "native", *rivals, *(f"{rival} / native" for rival in rivals)]
    return markdown_table(header, rows) + f"\n\n{_conditions(run)}"


def roofline(run: Run) -> str:
    """Bytes moved or products of an op, its rate, and the rate that the machine reaches."""
    rows = []
    for entry, name in _entries(run):
        for yardstick, (key, unit) in _YARDSTICKS.items():
            if yardstick in entry["seconds"]:
                # The native op's rate while it took turns with the yardstick, whose share it is.
                work, ratio = entry["work"][key] / 1e9, entry["ratios"][yardstick]
                rate = work / entry["seconds"][yardstick]
                rates = [f"{of * rate:.3g} G{unit}/s" for of in (ratio, 1)]
                share = f"{_percent(ratio)} of {yardstick}"
                rows.append([name, f"{work:.3g} G{unit}", *rates, share])
    if not rows:
        return _UNKNOWN
    return markdown_table(["", "work", "native", "the machine", "share"], rows) + f"\n\n{_conditions(run)}"


def check(runs: Mapping[str, Run]) -> str:
    """The ratios that `make bench-check` holds a run to, of each processor."""
    return "\n\n".join(
        markdown_table(
            ["", "rival / native"],
            [[name, _number(found)] for entry, name in _entries(run) for found in entry["ratios"].values()],
        )
        + f"\n\n{_conditions(run)}"
        for run in runs.values()
    )


def functions(run: Run) -> str:
    """Where the time of a fit and a sample goes."""
    rows = [
        [f"`{part['function']}`", f"{part['calls']:,}", f"{part['seconds']:.1f}", _percent(part["share"], 1)]
        for part in run["functions"]
    ]
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in run["seconds"].items())
    header = ["function", "calls", "seconds of its own", "share"]
    return markdown_table(header, rows) + f"\n\n{run['rows']:,} rows; under the profiler {took}: {describe(run)}."


def sampled(run: Run) -> str:
    """Shares of the same run in perf, measured in a run of their own."""
    rows = [[f"`{part['symbol']}`", part["file"], _percent(part["share"], 1)] for part in run.get("symbols", [])]
    return markdown_table(["symbol", "of", "processor time"], rows) if rows else _UNKNOWN


def scale(found: Run) -> str:
    """Seconds, memory and fidelity of a fit and its draws."""
    rows = []
    for run in found["runs"]:
        fit, sample = run["steps"]["fit"], run["steps"]["sample"]
        each = 1e6 * sample["seconds"] / run["rows"]
        rows.append([f"{run['rows']:,}", str(run["seed"]), f"{fit['seconds']:.1f}", f"{sample['seconds']:.1f}"])
        fresh = run.get("fidelity_of_fresh_rows")  # older runs have none
        rows[-1] += [f"{each:.1f}", f"{sample['peak'] / 1e9:.2f}", f"{run['fidelity']['overall']:.1f}"]
        rows[-1].append(f"{fresh['overall']:.1f}" if fresh else "-")
    header = ["rows", "seed", "fit, s", "as many rows drawn, s", "microseconds a row", "peak memory, GB", "fidelity"]
    header.append("that of fresh rows")
    return markdown_table(header, rows) + f"\n\n{describe(found)}."


def codec(found: Run) -> str:
    """Seconds of each step of the codec, nanoseconds a cell and peak memory, as rows grow."""
    rows = []
    for run in found["runs"]:
        for name, step in run["steps"].items():
            each = 1e9 * step["seconds"] / (73 * run["rows"])
            figures = [f"{step['seconds']:.2f}", f"{each:.1f}", f"{step['peak'] / 1e9:.2f}"]
            rows.append([f"{run['rows']:,}", f"{run['frame'] / 1e9:.2f}", name, *figures])
    header = ["rows", "frame, GB", "step", "seconds", "ns a cell", "peak so far, GB"]
    return markdown_table(header, rows) + f"\n\n{describe(found)}."


def census(runs: pd.DataFrame) -> str:
    """One sentence: from CSV to CSV, by how much memory, and the fidelity."""
    return (
        f"Census, {len(runs)} seeds, by the command line on two cores: from a CSV file with holes to one of 16,000 "
        f"synthetic rows in {span(runs['csv_to_rows_s'])} seconds, start of Python included, at a fidelity of "
        f"{span(runs['fidelity'], 1)} and within {math.ceil(runs['peak_mb'].max())} MB; "
        f"a loaded model draws 16,000 rows in {span(runs['draw_s'], 2)} seconds."
    )


def _entries(run: Run) -> list[tuple[Mapping[str, Any], str]]:
    """Figures and name of every op that is or should be there."""
    nothing: Mapping[str, Any] = {"seconds": {}, "ratios": {}}
    names = {**OPS, **{op: f"`{op}`" for op in run["ops"] if op not in OPS}}
    return [(run["ops"].get(op, nothing), name) for op, name in names.items()]


def _rivals(run: Run) -> list[str]:
    """The usual ones, and what others were measured."""
    return [*IMPLEMENTATIONS[1:], *(name for name in OTHERS if any(name in e["ratios"] for e in run["ops"].values()))]


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _number(value: float | None, digits: int = 2) -> str:
    return _NONE if value is None else f"{value:,.{digits}f}"


def current() -> dict[str, str]:
    """The text of every place, from what is stored now."""
    scales = {"scale": store.read(store.SCALE), "codec": store.read(store.CODEC)}
    speed, quality = (pd.read_csv(path) if path.exists() else pd.DataFrame() for path in (store.CENSUS, store.QUALITY))
    runs, cards = store.read(), store.cards()
    found = blocks(runs, store.read(store.PROFILE), scales, speed, cards, has_plot=PLOT.exists())
    return {**found, "figures": figures.table(quality, speed, scales["scale"], runs.get("full", {}), cards)}


def plot_shares(run: Run, path: Path) -> None:
    """A bar for each op and yardstick: the share of the machine's rate that the op reaches."""
    bars = [
        (f"{op}: {yardstick}", entry["ratios"][yardstick], _COLOURS[yardstick])
        for yardstick in _YARDSTICKS
        for op, entry in run["ops"].items()
        if yardstick in entry["ratios"]
    ]
    names, shares, colours = zip(*reversed(bars), strict=True)
    figure = Figure(figsize=(8, 0.4 * len(bars) + 1.2), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh(names, [100 * share for share in shares], color=colours)
    axes.bar_label(drawn, fmt="%.0f %%", padding=3)
    axes.axvline(100, color="grey", linewidth=1)
    axes.set(xlabel="per cent of the rate of a copy, of sgemm, or of the noise alone")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(_conditions(run).partition("; ")[0], loc="left", fontsize=8)
    draw(figure, path)


def main() -> None:
    """Fill the pages, and draw the shares."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    full = store.read().get("full")
    if full:
        plot_shares(full, SHARES)
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), current()), encoding="utf-8")
        print(f"filled {page}")


if __name__ == "__main__":
    main()
