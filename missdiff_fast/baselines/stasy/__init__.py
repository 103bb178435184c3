"""STaSy (Kim et al., 2023): self-paced score matching on complete tables."""

from missdiff_fast.baselines.stasy.estimator import STaSy

__all__ = ["STaSy"]
