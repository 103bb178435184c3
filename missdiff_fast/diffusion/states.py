"""States of one column in one row of a batch: what the network is shown of it."""

HIDDEN = 0  # nothing
NOISY = 1  # alpha x0 + sigma eps
CLEAN = 2  # x0
