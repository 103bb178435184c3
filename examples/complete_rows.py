"""Complete synthetic rows from a CSV file with missing cells.

python examples/complete_rows.py [--steps N]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd

from missdiff_fast import MissDiff
from missdiff_fast.datasets import census_split
from missdiff_fast.missingness import hide


def main() -> None:
    """Write a table with missing cells, fit a model to it, and write as many complete rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="training steps; default: the model's choice")
    steps = parser.parse_args().steps

    folder = Path(tempfile.mkdtemp())
    train, _ = census_split()
    table, _ = hide(train.head(2000), "independent", 0.2, random_state=0)
    table.to_csv(folder / "census.csv", index=False)

    table = pd.read_csv(folder / "census.csv").convert_dtypes(convert_string=False)
    model = MissDiff(steps=steps, random_state=0).fit(table)
    synthetic = model.sample(len(table))
    synthetic.to_csv(folder / "synthetic.csv", index=False)

    print(f"{int(table.isna().sum().sum()):,} of {table.size:,} cells are missing in {folder / 'census.csv'}")
    print(
        f"{int(synthetic.isna().sum().sum()):,} of {synthetic.size:,} cells are missing in {folder / 'synthetic.csv'}"
    )
    print(synthetic.head(3).to_string())


if __name__ == "__main__":
    main()
