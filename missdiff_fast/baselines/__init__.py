"""Methods to compare MissDiff with, usable on any table.

Generators: ``fit(X, categorical_columns=None)``, ``sample(num_rows, random_state=None)``.

==============  ========================================================================================
`DiffDelete`    `MissDiff` on the complete rows alone
`DiffMean`      `MissDiff` on the table filled with means and most frequent categories
`STaSy`         score-based synthesis with self-paced learning, on rows completed in either way
==============  ========================================================================================

Imputers: ``fit(X, categorical_columns=None)``, ``impute(X)``, which keeps observed cells bit for bit, and dtypes.

==================  ====================================================================================
`MeanModeImputer`   means and most frequent categories
`MICEImputer`       chained equations, linear
`MissForestImputer` chained random forests (needs ``pip install 'missdiff_fast[evaluate]'``)
`GAINImputer`       generative adversarial imputation nets
`CSDITImputer`      conditional diffusion: the median of many draws
==================  ====================================================================================

Deleting raises `NoCompleteRowError`, a ValueError, where no row is complete; `DiffDelete` also where the complete rows
are all the same.
"""

from missdiff_fast.baselines.csdi_t import CSDITImputer
from missdiff_fast.baselines.delete import DiffDelete, NoCompleteRowError, delete_incomplete
from missdiff_fast.baselines.gain import GAINImputer
from missdiff_fast.baselines.imputers import MeanModeImputer, MICEImputer, MissForestImputer
from missdiff_fast.baselines.mean import DiffMean
from missdiff_fast.baselines.stasy import STaSy

__all__ = [
    "CSDITImputer",
    "DiffDelete",
    "DiffMean",
    "GAINImputer",
    "MICEImputer",
    "MeanModeImputer",
    "MissForestImputer",
    "NoCompleteRowError",
    "STaSy",
    "delete_incomplete",
]
