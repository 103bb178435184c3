"""What proves the CUDA kernels on a card: see check.sh."""
