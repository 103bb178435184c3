"""Experiments by name: data set, mechanisms, methods, measures, and the place in the paper."""

from __future__ import annotations

from dataclasses import dataclass

METHODS = {
    "missdiff-paper": "MissDiff (paper's preset)",
    "missdiff-default": "MissDiff (default preset)",
    "diff-delete": "Diff-delete",
    "diff-mean": "Diff-mean",
    "stasy-delete": "STaSy-delete",
    "stasy-mean": "STaSy-mean",
    "mean-mode": "Mean/Mode",
    "mice": "MICE (linear)",
    "missforest": "MissForest",
    "gain": "GAIN",
    "csdi-t": "CSDI_T",
}
MECHANISMS = {
    "row": "Row missing",
    "column": "Column missing",
    "independent": "Independent missing",
    "mar": "MAR",
    "nmar": "NMAR",
}
DATASETS = {"census": "Census", "mimic4ed": "MIMIC4ED", "bayesian-network": "Bayesian network"}

_MCAR = ("row", "column", "independent")
# In the order of the paper's columns; the default preset, which the paper lacks, comes last.
_DIFFUSION = ("missdiff-paper", "diff-delete", "diff-mean", "missdiff-default")
_WITH_STASY = ("missdiff-paper", "diff-delete", "diff-mean", "stasy-delete", "stasy-mean", "missdiff-default")
_IMPUTERS = ("mean-mode", "mice", "missforest", "gain", "csdi-t", "missdiff-paper", "missdiff-default")


@dataclass(frozen=True)
class Measure:
    """A figure of a table.

    Parameters
    ----------
    key : str
        Its name among the measures of a run.
    metric : str
        Its name in the CSV and in `missdiff_fast.reproduce.paper_figures`.
    title : str
        Its name in the Markdown.
    factor : float
        Factor of the measure: 100 for shares that the paper gives in per cent.
    digits : int
        Decimals in the Markdown.
    """

    key: str
    metric: str
    title: str
    factor: float = 1.0
    digits: int = 3


@dataclass(frozen=True)
class Experiment:
    """A table, or the figure.

    Parameters
    ----------
    label : str
        In the paper's source.
    printed : str
        Its number among the tables or figures of the paper's source.
    title : str
        Its content.
    dataset : str
        Of `DATASETS`.
    mechanisms, methods : tuple of str
        Of `MECHANISMS` and `METHODS`, in the paper's order.
    measures : tuple of Measure
        The measures in the table.
    stasy_epochs : int, optional
        Of STaSy.
    notes : tuple of str
        Notes for readers.
    imputation : bool
        Whether holes are filled, and no rows are drawn.
    """

    label: str
    printed: str
    title: str
    dataset: str
    mechanisms: tuple[str, ...]
    methods: tuple[str, ...]
    measures: tuple[Measure, ...]
    stasy_epochs: int | None = None
    notes: tuple[str, ...] = ()
    imputation: bool = False


_FIDELITY = (
    Measure("fidelity.overall", "fidelity", "Fidelity, %", digits=2),
    Measure("fidelity.shapes", "shapes", "Of which shapes, %", digits=2),
    Measure("fidelity.trends", "trends", "Of which trends, %", digits=2),
    Measure("fidelity.all_pairs", "fidelity_all_pairs", "Fidelity with all pairs of columns, %", digits=2),
)
_FIDELITY_NOTE = (
    "Fidelity is the Quality Report of SDMetrics, the mean of shapes and trends. Recent releases leave pairs of "
    "columns that are hardly associated out of the trends; releases of the paper's time counted them all."
)


def _accuracy(model: str) -> Measure:
    return Measure(f"{model}.accuracy", "accuracy", "Accuracy, %", 100, 2)


_UTILITY = (
    _accuracy("xgboost"),
    Measure("xgboost.binary_f1", "binary_f1", "Binary F1"),
    Measure("xgboost.weighted_f1", "weighted_f1", "Weighted F1"),
    Measure("xgboost.auroc", "auroc", "AUROC"),
)
_HOURS = (
    Measure("xgboost.rmse", "rmse", "RMSE, hours"),
    Measure("xgboost.r2", "r2", "R2"),
    Measure("xgboost.log_rmse", "log_rmse", "RMSE of log(1 + hours)"),
    Measure("xgboost.log_r2", "log_r2", "R2 of log(1 + hours)"),
)
_MIMIC_NOTES = (
    "The paper does not say what it predicts, nor in what unit. Here it is the length of stay, in hours and as "
    "log(1 + hours); the paper's figures stand beside the hours.",
    "The table's natural holes stay in what the methods learn from, and count as holes; the real rows that utility is "
    "measured on have them filled with the medians of the training rows, as the benchmark does.",
)
_SAME_EPOCHS = "STaSy gets 250 epochs, as the other methods."


def _by_model(printed: str, label: str, model: str, title: str) -> Experiment:
    return Experiment(
        label,
        printed,
        f"Utility on Census by {title}, MCAR",
        "census",
        _MCAR,
        _WITH_STASY,
        (_accuracy(model),),
        1000,
    )


EXPERIMENTS = {
    "table1": Experiment(
        "tab:t1",
        "Table 2",
        "Fidelity on Census, MCAR",
        "census",
        _MCAR,
        _WITH_STASY,
        _FIDELITY,
        1000,
        (_FIDELITY_NOTE,),
    ),
    "table2": Experiment(
        "tab:t2, tab:t2d",
        "Tables 3 and 9",
        "Utility on Census by XGBoost, MCAR",
        "census",
        _MCAR,
        _WITH_STASY,
        _UTILITY,
        1000,
    ),
    "table3": Experiment(
        "tab:t3",
        "Table 4",
        "Fidelity on MIMIC4ED, MCAR",
        "mimic4ed",
        _MCAR,
        _WITH_STASY,
        _FIDELITY,
        250,
        (_FIDELITY_NOTE, _SAME_EPOCHS, _MIMIC_NOTES[1]),
    ),
    "table4": Experiment(
        "tab:t4, tab:t4d",
        "Tables 5 and 10",
        "Utility on MIMIC4ED by XGBoost, MCAR",
        "mimic4ed",
        _MCAR,
        _WITH_STASY,
        _HOURS,
        250,
        (*_MIMIC_NOTES, _SAME_EPOCHS),
    ),
    "table5": Experiment(
        "tab:t5",
        "Table 6",
        "Fidelity on Census, MAR and NMAR",
        "census",
        ("mar", "nmar"),
        _DIFFUSION,
        _FIDELITY,
        notes=(_FIDELITY_NOTE,),
    ),
    "table6": Experiment(
        "tab:t6, tab:t6d",
        "Tables 7 and 11",
        "Utility on Census by XGBoost, MAR and NMAR",
        "census",
        ("mar", "nmar"),
        _DIFFUSION,
        _UTILITY,
    ),
    "table7": Experiment(
        "tab:t7",
        "Table 17",
        "Fidelity on Census with 250 epochs of STaSy, MCAR",
        "census",
        _MCAR,
        _WITH_STASY,
        _FIDELITY,
        250,
        (_FIDELITY_NOTE, _SAME_EPOCHS),
    ),
    "table8": Experiment(
        "tab:t8",
        "Table 18",
        "Utility on Census by XGBoost with 250 epochs of STaSy, MCAR",
        "census",
        _MCAR,
        _WITH_STASY,
        (_accuracy("xgboost"),),
        250,
        (_SAME_EPOCHS,),
    ),
    "table9": _by_model("Table 12", "tab:t9", "decision_tree", "decision tree"),
    "table10": _by_model("Table 13", "tab:t10", "adaboost", "AdaBoost"),
    "table11": _by_model("Table 14", "tab:t11", "logistic_regression", "logistic regression"),
    "table12": _by_model("Table 15", "tab:t12", "mlp", "multi-layer perceptron"),
    "table13": _by_model("Table 16", "tab:t13", "random_forest", "random forest"),
    "figure-bn": Experiment(
        "tab:BN",
        "Figure 1",
        "Fidelity on the Bayesian network by missing ratio, MCAR",
        "bayesian-network",
        _MCAR,
        _DIFFUSION,
        (_FIDELITY[0], _FIDELITY[3]),
        notes=(_FIDELITY_NOTE, "The paper prints no figures here, only curves."),
    ),
    "imputation": Experiment(
        "tab:imputation",
        "Table 8",
        "Imputation of Census",
        "census",
        ("column",),
        _IMPUTERS,
        (
            Measure("rmse", "rmse", "RMSE"),
            Measure("mae", "mae", "MAE"),
            Measure("category_error", "category_error", "Wrong categories, %", digits=2),
        ),
        notes=(
            "The paper names no mechanism. Here, as in the source of the protocol, TabCSDI, a fifth of each column is "
            "hidden, the methods learn from the training rows, and the holes of the test rows are filled. RMSE is the "
            "mean over the 6 continuous columns, each in units of its range.",
        ),
        imputation=True,
    ),
}
