"""Two methods for tables with holes: column states (the default) and the paper's Algorithms 1 and 2."""

from __future__ import annotations

import torch

from missdiff_fast._engine.backend import Backend
from missdiff_fast.config import AnyConfig, PaperConfig
from missdiff_fast.methods.base import Method
from missdiff_fast.methods.column_states import ColumnStates
from missdiff_fast.methods.noise_prediction import NoisePrediction
from missdiff_fast.table import Codec

__all__ = ["ColumnStates", "Method", "NoisePrediction", "make_method"]


def make_method(codec: Codec, config: AnyConfig, device: torch.device, backend: Backend) -> Method:
    """The method of a configuration."""
    if isinstance(config, PaperConfig):
        return NoisePrediction(codec, config, device, backend)
    return ColumnStates(codec, config, device, backend)
