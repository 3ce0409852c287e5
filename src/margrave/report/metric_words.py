"""Titles of scores for readers who know none of them, and the groups they are shown in."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["TITLES", "grouped", "title_of"]

TITLES = {
    "accuracy": "Right classes",
    "apparent_match": "Apparent matches by known columns",
    "association_difference": "Error of Cramér's V, mean",
    "association_max": "Association error, max",
    "association_mean": "Association error, mean",
    "attack_attribute": "Attack: guess a column",
    "attack_density": "Attack: membership by density",
    "attack_linkability": "Attack: link two lists",
    "attack_nearest": "Attack: membership by nearest row",
    "attack_shadow": "Attack: shadow models",
    "attack_singling_out": "Attack: single out by three columns",
    "attack_singling_out_1way": "Attack: single out by one column",
    "auc": "AUC",
    "average_precision": "Area under precision and recall",
    "average_sw1": "Sliced transport distance of pairs",
    "average_tv": "Total variation of pairs",
    "contingency_similarity": "Likeness of pairs of listed columns",
    "correlation_similarity": "Likeness of correlations",
    "counting_queries": "Counting queries, relative error",
    "covariance_error": "Covariance error",
    "dependence_invented": "Dependence invented, mean",
    "dependence_kept": "Share of dependence kept",
    "downstream_error": "Error of trees trained on it",
    "fidelity_error": "Fidelity error",
    "first_look": "First look",
    "k_marginal": "NIST k-marginal score, pairs",
    "k_marginal_3": "NIST k-marginal score, triples",
    "ks_complement": "Likeness of numeric columns",
    "l1_2way": "L1 distance, two columns",
    "l1_3way": "L1 distance, three columns",
    "l1_4way": "L1 distance, four columns",
    "l1_upto3way": "L1 distance, up to three columns",
    "logistic_f1": "F1 of a logistic regression",
    "ml_accuracy": "Four models: right classes",
    "ml_auc": "Four models: area under the curve",
    "ml_f1": "Four models: F1",
    "ml_r2": "Four models: variance explained",
    "ml_rmse": "Four models: root mean squared error",
    "order_broken": "Rows that break an order",
    "overall": "Overall",
    "pearson_difference": "Error of Pearson's r, mean",
    "propensity_cart": "Told apart by a decision tree",
    "propensity_logistic": "Told apart by a logistic regression",
    "query_error": "Range and point queries, error",
    "rank_slope": "Slope of rank correlations",
    "regression_overlap": "Overlap of regression intervals",
    "roc_auc": "Area under the ROC curve",
    "rules": "Rows that break a rule",
    "threshold_queries": "Threshold queries, relative error",
    "tv_complement": "Likeness of listed columns",
    "unique_exact_match": "One-of-a-kind rows that reappear",
}
WIDTHS = {"1": "one column", "2": "two columns", "3": "three columns"}

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Overall", ("overall",)),
    ("First look", ("first_look",)),
    ("Single columns", ("tv_1_", "ks_complement", "tv_complement")),
    (
        "Dependence between columns",
        (
            "association_",
            "correlation_",
            "dependence_",
            "order_",
            "pearson_",
            "rank_",
            "covariance_",
            "regression_",
        ),
    ),
    (
        "Several columns at once",
        ("tv_", "average_tv", "average_sw1", "contingency_", "fidelity_", "k_marginal", "l1_"),
    ),
    ("Questions asked of the table", ("counting_", "threshold_", "query_")),
    ("Prediction", ("roc_auc", "average_precision", "accuracy", "auc", "downstream_", "logistic_", "ml_")),
    ("Telling synthetic rows from real ones", ("propensity_",)),
    ("Rules", ("rules",)),
    ("What the rows may give away", ("apparent_", "unique_", "attack_")),
)


def title_of(name: str) -> str:
    """A title for a score, made from its name where there is no other."""
    parts = name.split("_")
    if parts[0] == "tv" and len(parts) == 3 and parts[1] in WIDTHS:
        return f"Total variation, {WIDTHS[parts[1]]}, {parts[2]}"
    return TITLES.get(name, name.replace("_", " ").capitalize())


def grouped(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Names by group; a name goes to the first group that it fits, and to a last one if it fits none."""
    found: dict[str, list[str]] = {heading: [] for heading in (*(group for group, _ in GROUPS), "More")}
    for name in names:
        fits = (heading for heading, starts in GROUPS if name.startswith(starts))
        found[next(fits, "More")].append(name)
    return [(heading, held) for heading, held in found.items() if held]
