"""How good synthetic rows and filled holes are. Needs the packages of ``pip install 'missdiff_fast[evaluate]'``."""

from missdiff_fast.evaluate.fidelity import fidelity
from missdiff_fast.evaluate.imputation import fill_mean_mode, imputation, imputation_errors
from missdiff_fast.evaluate.utility import utility

__all__ = ["fidelity", "fill_mean_mode", "imputation", "imputation_errors", "utility"]
