"""Data sets to try the model on."""

from missdiff_fast.datasets.bayesian_network import (
    BAYESIAN_NETWORK_CONTINUOUS,
    bayesian_network,
    bayesian_network_split,
)
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split, load_census
from missdiff_fast.datasets.mimic4ed import MIMIC4ED_CATEGORICAL, MIMIC4ED_CONTINUOUS, load_mimic4ed
from missdiff_fast.datasets.mimic4ed_simulated import simulate_mimic4ed

__all__ = [
    "BAYESIAN_NETWORK_CONTINUOUS",
    "CENSUS_CONTINUOUS",
    "MIMIC4ED_CATEGORICAL",
    "MIMIC4ED_CONTINUOUS",
    "bayesian_network",
    "bayesian_network_split",
    "census_split",
    "load_census",
    "load_mimic4ed",
    "simulate_mimic4ed",
]
