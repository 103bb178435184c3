"""Measures of synthetic rows and of filled holes. Needs the packages of ``pip install 'missdiff_fast[evaluate]'``.

Tables may be DataFrames of pandas or polars or Tables of pyarrow; figures are tables of pandas.

Numbers with limits of measurement, such as ``<0.1``, are numeric columns to all measures, as they are to
`missdiff_fast.MissDiff`: a limit is a number just beyond its own.
"""

from missdiff_fast.evaluate.detection import detection
from missdiff_fast.evaluate.draws import draw_errors, expected_coverage, row_energy
from missdiff_fast.evaluate.fidelity import fidelity, fidelity_details
from missdiff_fast.evaluate.imputation import fill_mean_mode, imputation, imputation_errors
from missdiff_fast.evaluate.overimputation import draw_scores, overimputation
from missdiff_fast.evaluate.precision_recall import precision_recall
from missdiff_fast.evaluate.protocol import protocol, protocol_errors
from missdiff_fast.evaluate.report import format_report, report
from missdiff_fast.evaluate.utility import utility

__all__ = [
    "detection",
    "draw_errors",
    "draw_scores",
    "expected_coverage",
    "fidelity",
    "fidelity_details",
    "fill_mean_mode",
    "format_report",
    "imputation",
    "imputation_errors",
    "overimputation",
    "precision_recall",
    "protocol",
    "protocol_errors",
    "report",
    "row_energy",
    "utility",
]
