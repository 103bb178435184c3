"""Checks of the CUDA kernels on a card: see check.sh."""
