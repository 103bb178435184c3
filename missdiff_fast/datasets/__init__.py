"""Tables to try the model on."""

from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split, load_census

__all__ = ["CENSUS_CONTINUOUS", "census_split", "load_census"]
