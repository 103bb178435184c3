"""Networks that predict clean rows from noisy ones."""

from missdiff_fast.networks.mlp import Denoiser

__all__ = ["Denoiser"]
