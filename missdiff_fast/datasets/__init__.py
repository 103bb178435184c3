"""Tables to try the model on, and a way of hiding cells in them."""

from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split, hide, load_census

__all__ = ["CENSUS_CONTINUOUS", "census_split", "hide", "load_census"]
