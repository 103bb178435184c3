"""Networks that predict clean rows or noise from noisy rows: the default model's and the paper's."""

from missdiff_fast.networks.csdi import CSDINetwork
from missdiff_fast.networks.mlp import Denoiser

__all__ = ["CSDINetwork", "Denoiser"]
