"""States of a column in a row of a batch: what the network sees of the cell."""

HIDDEN = 0  # nothing
NOISY = 1  # alpha x0 + sigma eps
CLEAN = 2  # x0
