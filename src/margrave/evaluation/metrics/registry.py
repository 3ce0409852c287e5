"""The table of metrics: names, and what each says about itself. All are **not private**.

Sources: Chen et al. 2025 (Benchmarking differentially private tabular data synthesis, arXiv 2504.14061),
Donhauser et al. 2024 (PrivPGD, arXiv 2401.17823), Greenewald et al. 2024 (Privacy without noisy gradients,
arXiv 2410.19941), Maddock et al. 2025 (Leveraging vertical public-private split, arXiv 2504.10987), SDMetrics
and SDNist as released; docs/metrics.md says where a definition had to be filled in.
"""

from __future__ import annotations

from collections.abc import Sequence

from margrave.errors import InputError, invalid
from margrave.evaluation.distance import total_variation
from margrave.evaluation.metrics import efficiency as learnt
from margrave.evaluation.metrics.dependence import (
    CovarianceError,
    DependenceInvented,
    DependenceKept,
    PairCorrelations,
    pearson_difference,
    similarity,
)
from margrave.evaluation.metrics.disclosure import DISCLOSURE
from margrave.evaluation.metrics.efficiency import Propensity, RegressionOverlap
from margrave.evaluation.metrics.first_look import FirstLook
from margrave.evaluation.metrics.marginals import (
    CountingQueries,
    KSComplement,
    MeanDistance,
    RangeQueries,
    SlicedTransport,
    ThresholdQueries,
    TVComplement,
    association_difference,
    k_marginal,
    l1_distance,
)
from margrave.evaluation.metrics.orders import OrderBroken, RankSlope
from margrave.evaluation.metrics.rows import BrokenRules
from margrave.evaluation.score import Facts
from margrave.evaluation.task import Metric
from margrave.extensions import add_entry, find_entry, load_extensions

ALL_PAIRS = "one table of counts a pair of columns, all pairs"

DEPENDENCE: tuple[Metric, ...] = (
    DependenceInvented(
        Facts(
            "dependence_invented",
            "Mean over all pairs of columns of the dependence that the synthetic table has beyond the real "
            "one and beyond sampling noise, as a share of the most that its margins allow.",
            title="Dependence invented, mean",
            group="Dependence between columns",
            source="docs/metrics.md, dependence",
            cost=ALL_PAIRS,
            reads="rows",
        )
    ),
    DependenceKept(
        Facts(
            "dependence_kept",
            "Share of the dependence of pairs of columns, above what independence and sampling noise give, "
            "that the synthetic table has cell by cell too; what it invents does not count.",
            title="Share of dependence kept",
            group="Dependence between columns",
            better="higher",
            goal=1.0,
            source="docs/metrics.md, dependence",
            cost=ALL_PAIRS,
            reads="rows",
        )
    ),
    OrderBroken(
        Facts(
            "order_broken",
            "Share of synthetic rows that break an order of two columns, such as a first date before a last "
            "one, that no real row breaks though independent columns would.",
            title="Rows that break an order",
            group="Dependence between columns",
            source="docs/metrics.md, order",
            cost="one scan of two columns a pair, most of which end at once",
            reads="values",
        )
    ),
    RankSlope(
        Facts(
            "rank_slope",
            "Slope through the origin of the synthetic on the real rank correlations, over all pairs of "
            "columns of numbers or ordered codes: 1 if they are kept, 0 if they are lost.",
            title="Slope of rank correlations",
            group="Dependence between columns",
            better="higher",
            low=None,
            high=None,
            goal=1.0,
            source="docs/metrics.md, rank correlations; Spearman 1904",
            cost="one sort a column and one product of the rows with themselves",
            reads="values",
        )
    ),
)
"""In the order of their names."""


PAIRS = "one table of counts a pair of columns"
TRAINING = "trains models on at most 50,000 rows"
SCANS = "one scan of three columns a query"
PROJECTED = "one sort of the cells a pair and direction"

_ALL: tuple[Metric, ...] = (
    *DISCLOSURE,
    *DEPENDENCE,
    MeanDistance(
        Facts(
            "association_difference",
            "Mean absolute difference of Cramér's V between the two tables, over pairs of columns.",
            title="Error of Cramér's V, mean",
            group="Dependence between columns",
            source="Cramér 1946, section 21.9; the counterpart of SDNist's correlations for any column",
            cost=PAIRS,
        ),
        (2,),
        association_difference,
    ),
    SlicedTransport(
        Facts(
            "average_sw1",
            "Mean over pairs of columns of the sliced 1-Wasserstein distance between the two tables, codes "
            "spread evenly over [0, 1].",
            title="Sliced transport distance of pairs",
            group="Several columns at once",
            high=2**0.5,
            source="Donhauser et al. 2024, equation 10",
            cost=PROJECTED,
        )
    ),
    MeanDistance(
        Facts(
            "average_tv",
            "Mean over pairs of columns of the total variation between the two tables of shares.",
            title="Total variation of pairs",
            group="Several columns at once",
            source="Donhauser et al. 2024, equation 11",
            cost=PAIRS,
        ),
        (2,),
    ),
    MeanDistance(
        Facts(
            "contingency_similarity",
            "Mean over pairs of listed columns of 1 minus the total variation between the two tables; "
            "a missing value is a value.",
            title="Likeness of pairs of listed columns",
            group="Several columns at once",
            better="higher",
            goal=1.0,
            source="SDMetrics 0.32, ContingencySimilarity; Greenewald et al. 2024, table 1",
            cost=PAIRS,
        ),
        (2,),
        lambda first, second: 1 - total_variation(first, second),
        listed=True,
    ),
    PairCorrelations(
        Facts(
            "correlation_similarity",
            "Mean over pairs of numeric columns of 1 minus half the difference of Pearson's coefficients, of "
            "raw numbers that are both there.",
            title="Likeness of correlations",
            group="Dependence between columns",
            better="higher",
            goal=1.0,
            source="SDMetrics 0.32, CorrelationSimilarity; Greenewald et al. 2024, table 1",
            cost="one scan of two columns a pair",
            reads="values",
        ),
        similarity,
    ),
    CountingQueries(
        Facts(
            "counting_queries",
            "Mean error of random 3-way interval queries over codes, divided by their mean real answer.",
            title="Counting queries, relative error",
            group="Questions asked of the table",
            high=None,
            source="Donhauser et al. 2024, section 4.1 and equation 9",
            cost=SCANS,
            reads="rows",
        )
    ),
    CovarianceError(
        Facts(
            "covariance_error",
            "Frobenius norm of the difference of the covariance matrices, divided by that of the synthetic "
            "one, codes spread evenly over [0, 1].",
            title="Covariance error",
            group="Dependence between columns",
            high=None,
            source="Donhauser et al. 2024, section 4.1",
            cost="one product of the rows with themselves",
            reads="rows",
        )
    ),
    learnt.DownstreamError(
        Facts(
            "downstream_error",
            "Share of wrong classes, or mean squared error of embedded codes, of gradient-boosted trees that "
            "learned from synthetic rows, on real ones.",
            title="Error of trees trained on it",
            group="Prediction",
            goal=None,
            source="Donhauser et al. 2024, section 4.1",
            cost=TRAINING,
            reads="values",
            needs=("target",),
        )
    ),
    MeanDistance(
        Facts(
            "fidelity_error",
            "Mean over pairs of columns of the total variation between the synthetic and the held-out table.",
            title="Fidelity error",
            group="Several columns at once",
            source="Chen et al. 2025, section 8.3",
            cost=PAIRS,
        ),
        (2,),
        unseen=True,
    ),
    FirstLook(
        Facts(
            "first_look",
            "How much of what a person checks first is kept: orders and equalities of columns, values "
            "missing together, strong rank correlations, hours and weekdays, codes, and how values are "
            "written; the mean over these kinds.",
            title="First look",
            group="First look",
            better="higher",
            goal=1.0,
            source="docs/metrics.md, first look",
            cost="one scan of two columns a pair, of at most 65,536 rows; most pairs end after 2,000",
            reads="values",
        )
    ),
    MeanDistance(
        Facts(
            "k_marginal",
            "NIST's score of pairs of columns: 1000 times 1 minus the mean total variation.",
            title="NIST k-marginal score, pairs",
            group="Several columns at once",
            better="higher",
            high=1000.0,
            goal=1000.0,
            source="SDNist 2.5, k-marginal with k = 2, over all pairs",
            cost=PAIRS,
        ),
        (2,),
        k_marginal,
    ),
    MeanDistance(
        Facts(
            "k_marginal_3",
            "NIST's score of triples of columns: 1000 times 1 minus the mean total variation.",
            title="NIST k-marginal score, triples",
            group="Several columns at once",
            better="higher",
            high=1000.0,
            goal=1000.0,
            source="SDNist 2.5, k-marginal with k = 3",
            cost="one table of counts a triple of columns",
        ),
        (3,),
        k_marginal,
    ),
    KSComplement(
        Facts(
            "ks_complement",
            "Mean over numeric columns of 1 minus the largest gap between the distribution functions of the "
            "raw numbers that are there.",
            title="Likeness of numeric columns",
            group="Single columns",
            better="higher",
            goal=1.0,
            source="SDMetrics 0.32, KSComplement; Greenewald et al. 2024, table 1",
            cost="one sort a column",
            reads="values",
            single_columns=True,
        )
    ),
    *(
        MeanDistance(
            Facts(
                f"l1_{width}way",
                f"Mean L1 distance between the two tables of shares, over sets of {width} columns.",
                title=f"L1 distance, {word} columns",
                group="Several columns at once",
                high=2.0,
                source="Maddock et al. 2025, section 4",
                cost=f"one table of counts a set of {width} columns",
            ),
            (width,),
            l1_distance,
        )
        for width, word in ((2, "two"), (3, "three"), (4, "four"))
    ),
    MeanDistance(
        Facts(
            "l1_upto3way",
            "Mean L1 distance between the two tables of shares, over single columns, pairs and triples.",
            title="L1 distance, up to three columns",
            group="Several columns at once",
            high=2.0,
            source="Maddock et al. 2025, section 4",
            cost="one table of counts a set of columns",
        ),
        (1, 2, 3),
        l1_distance,
    ),
    learnt.LogisticF1(
        Facts(
            "logistic_f1",
            "F1 score on real rows of a logistic regression that learned from synthetic rows.",
            title="F1 of a logistic regression",
            group="Prediction",
            better="higher",
            goal=None,
            source="Greenewald et al. 2024, table 1",
            cost=TRAINING,
            reads="values",
            needs=("target",),
        )
    ),
    *(
        learnt.Efficiency(
            Facts(
                f"ml_{name}",
                f"{text} on held-out rows of four models that learned from synthetic rows, averaged.",
                title=f"Four models: {title}",
                group="Prediction",
                better="lower" if name == "rmse" else "higher",
                low=None if name == "r2" else 0.0,
                high=None if name == "rmse" else 1.0,
                goal=None,
                source="Chen et al. 2025, section 8.3 and tables 2 and 14",
                cost=TRAINING,
                reads="values",
                needs=("target",),
            ),
            of,
            numeric,
        )
        for name, title, text, of, numeric in (
            ("accuracy", "right classes", "Share of right classes", learnt.accuracy, False),
            (
                "auc",
                "area under the curve",
                "Area under the curve, one class against the rest,",
                learnt.auc,
                False,
            ),
            ("f1", "F1", "F1 score, classes of equal weight,", learnt.macro_f1, False),
            ("r2", "variance explained", "Share of variance explained", learnt.r_squared, True),
            ("rmse", "root mean squared error", "Root of the mean squared error", learnt.rmse, True),
        )
    ),
    PairCorrelations(
        Facts(
            "pearson_difference",
            "Mean absolute difference of Pearson's coefficients between the two tables, over pairs of "
            "columns of raw numbers.",
            title="Error of Pearson's r, mean",
            group="Dependence between columns",
            high=2.0,
            source="SDNist 2.5, pairwise Pearson correlation",
            cost="one scan of two columns a pair",
            reads="values",
        ),
        pearson_difference,
    ),
    Propensity(
        Facts(
            "propensity_cart",
            "Mean squared distance of a decision tree's chances to be synthetic from their mean: 0 if it "
            "cannot tell, 0.25 if it always can and the tables are equally long.",
            title="Told apart by a decision tree",
            group="Telling synthetic rows from real ones",
            high=0.25,
            source="SDNist 2.5, propensity; Woo et al. 2009",
            cost=TRAINING,
            reads="values",
        )
    ),
    Propensity(
        Facts(
            "propensity_logistic",
            "Mean squared distance of a logistic regression's chances to be synthetic from their mean: 0 if "
            "it cannot tell, 0.25 if it always can and the tables are equally long.",
            title="Told apart by a logistic regression",
            group="Telling synthetic rows from real ones",
            high=0.25,
            source="Snoke et al. 2018",
            cost=TRAINING,
            reads="values",
            single_columns=True,
        ),
        "logistic",
    ),
    RangeQueries(
        Facts(
            "query_error",
            "Mean absolute error against held-out rows of random 3-way queries, intervals of raw numbers and "
            "single values of listed columns.",
            title="Range and point queries, error",
            group="Questions asked of the table",
            source="Chen et al. 2025, section 8.3",
            cost=SCANS,
            reads="values",
        )
    ),
    RegressionOverlap(
        Facts(
            "regression_overlap",
            "Mean overlap of the 95 % intervals of the coefficients when the target is regressed on all else "
            "in each table.",
            title="Overlap of regression intervals",
            group="Dependence between columns",
            better="higher",
            goal=1.0,
            source="Karr et al. 2006; the counterpart of SDNist's regression for any schema",
            cost="one least-squares fit a table",
            reads="values",
            needs=("target",),
        )
    ),
    BrokenRules(
        Facts(
            "rules",
            "Share of synthetic rows that break at least one declared rule; the parts count the rows that "
            "break each, in both tables.",
            title="Rows that break a rule",
            group="Rules",
            goal=None,
            source="docs/rules.md; without a public table, g3 of Kivinen and Mannila 1995",
            cost="one scan of its columns a rule",
            reads="values",
            needs=("rules",),
        )
    ),
    ThresholdQueries(
        Facts(
            "threshold_queries",
            "Mean error of random 3-way linear threshold queries over embedded codes, divided by their mean "
            "real answer.",
            title="Threshold queries, relative error",
            group="Questions asked of the table",
            high=None,
            source="Donhauser et al. 2024, section 4.1 and equation 9",
            cost=SCANS,
            reads="rows",
        )
    ),
    TVComplement(
        Facts(
            "tv_complement",
            "Mean over listed columns of 1 minus the total variation between the two tables of shares, "
            "missing values left out.",
            title="Likeness of listed columns",
            group="Single columns",
            better="higher",
            goal=1.0,
            source="SDMetrics 0.32, TVComplement; Greenewald et al. 2024, table 1",
            cost="one table of counts a column",
            reads="rows",
            single_columns=True,
        )
    ),
)

METRICS: dict[str, Metric] = {one.facts.name: one for one in sorted(_ALL, key=lambda one: one.facts.name)}
"""Every metric by its name, sorted."""


def list_metrics() -> list[str]:
    """The names of all metrics, those of installed extensions included, sorted.

    Raises:
        InputError: An extension cannot be loaded.
    """
    load_extensions()
    return sorted(METRICS)


def list_asked(metrics: str | Sequence[str | Metric]) -> list[str | Metric]:
    """What a user asked for as a list: "all" as the names of all metrics, another name as that one alone.

    Raises:
        InputError: An extension cannot be loaded.
    """
    if isinstance(metrics, str):
        metrics = [metrics]
    return list(list_metrics()) if list(metrics) == ["all"] else list(metrics)


def metric(name: str) -> Metric:
    """The metric of a name.

    Raises:
        InputError: There is none.
    """
    found = find_entry(METRICS, name)
    if found is None:
        raise InputError(invalid("metrics", f"among {list(METRICS)}", "Check the spelling.", got=name))
    return found


def register_metric(one: Metric) -> None:
    """Add a metric, so that it can be asked for by its name.

    Raises:
        InputError: The name is taken by another metric.
    """
    add_entry(METRICS, one.facts.name, one, "the metric")
