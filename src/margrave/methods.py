"""The named methods: which strategy goes with which estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from margrave import select
from margrave.errors import InputError, invalid
from margrave.extensions import add_entry, find_entry

if TYPE_CHECKING:
    from margrave.protocols import Strategy


@dataclass(frozen=True, slots=True)
class Method:
    """A named recipe.

    Args:
        name: The name it is asked for under.
        strategy: Makes the selection strategy.
        fitter: Name of the model family.
        summary: What it is, in a sentence.
        source: Where it comes from.
        page: Where it is described, below docs/.
        extra: What has to be installed besides, as in `pip install 'margrave[gpu]'`; empty for nothing.
    """

    name: str
    strategy: Callable[[], Strategy]
    fitter: str
    summary: str
    source: str
    page: str = ""
    extra: str = ""


# Strategies are named inside functions, so that a run imports its own alone (`margrave.select` is lazy).
METHODS: dict[str, Method] = {
    entry.name: entry
    for entry in (
        Method(
            "auto",
            lambda: select.AllPairs(),
            "auto",
            "Every pair, dependent ones twice; a mixture of products, nested, or a graphical model.",
            "docs/auto.md",
            page="auto.md",
        ),
        Method(
            "aim",
            lambda: select.AIM(),
            "pgm",
            "Adaptive choice of marginals, graphical model.",
            "arXiv 2201.12677",
            page="methods/aim.md",
        ),
        Method(
            "gated",
            lambda: select.PrivatePairs(),
            "gated",
            "Every pair with a private column, dependent ones at less noise; a mixture over the public rows.",
            "docs/public.md",
            page="public.md",
        ),
        Method(
            "conditional_aim",
            lambda: select.ConditionalAIM(),
            "conditional_pgm",
            "AIM on marginals with a private column; a graphical model drawn given the public columns.",
            "arXiv 2504.10987",
            page="methods/conditional_aim.md",
        ),
        Method(
            "vjam",
            lambda: select.VerticalRounds(closed=True, discount=True, ones=True, choosing=Fraction(1, 5)),
            "conditional_pgm",
            "Rounds in which tables of public columns compete with measured ones; a graphical model.",
            "arXiv 2504.10987",
            page="methods/vertical.md",
        ),
        Method(
            "vgem",
            lambda: select.VerticalRounds(choosing=Fraction(2, 3)),
            "public_network",
            "Rounds as of vjam; a generator network that is trained on public columns first.",
            "arXiv 2504.10987",
            page="methods/vertical.md",
            extra="gpu",
        ),
        Method(
            "vpmw",
            lambda: select.VerticalRounds(),
            "public_weights",
            "Rounds as of vjam; weights on public rows times private cells, for few and small columns.",
            "arXiv 2504.10987",
            page="methods/vertical.md",
        ),
        Method(
            "jam",
            lambda: select.JAM(),
            "conditional_pgm",
            "Rounds in which tables of public rows compete with measured ones; a graphical model.",
            "arXiv 2403.07797",
            page="methods/jam.md",
        ),
        Method(
            "batched",
            lambda: select.Batched(),
            "pgm",
            "All pairs appraised at once and bought in a few batches, graphical model.",
            "margrave, after arXiv 2201.12677",
            page="methods/batched.md",
        ),
        Method(
            "mst",
            lambda: select.MST(),
            "compressed",
            "One-ways and a private spanning tree of pairs, graphical model of the codes above the noise.",
            "McKenna, Miklau and Sheldon 2021",
            page="methods/mst.md",
        ),
        Method(
            "privsyn",
            lambda: select.PrivSyn(),
            "gum",
            "Pairs whose dependence outweighs their noise, merged to cliques; rows moved to fit them.",
            "Zhang et al. 2021, USENIX Security",
            page="methods/privsyn.md",
        ),
        Method(
            "privmrf",
            lambda: select.PrivMRF(),
            "pgm",
            "Marginals inside the cliques of a triangulated graph of dependence, graphical model.",
            "Cai et al. 2021, VLDB 14",
            page="methods/privmrf.md",
        ),
        Method(
            "mwem",
            lambda: select.TopQ(q=1, choosing=Fraction(1, 2), again=True),
            "pmw",
            "The worst-fitted pair of every round, multiplicative weights on all cells: small domains.",
            "arXiv 1012.4763",
            page="methods/mwem.md",
        ),
        Method(
            "rap",
            lambda: select.TopQ(),
            "relaxed",
            "The worst-fitted pairs of every round; relaxed rows fitted by gradient descent.",
            "arXiv 2103.06641",
            page="methods/rap.md",
            extra="gpu",
        ),
        Method(
            "rap_pp",
            lambda: select.TopQ(),
            "relaxed_points",
            "As rap, with numbers as points, sigmoids that grow steep and random linear thresholds.",
            "Vietri et al. 2022, NeurIPS 35",
            page="methods/rap.md",
            extra="gpu",
        ),
        Method(
            "gem",
            lambda: select.TopQ(rounds=None, q=1),
            "network",
            "The worst-fitted pair of every round; a generator network fitted to whole marginals.",
            "arXiv 2106.07153",
            page="methods/gem.md",
            extra="gpu",
        ),
        Method(
            "dp_merf",
            lambda: select.MeanEmbedding(),
            "merf",
            "Random Fourier features of the numbers by label, pairs with the label; a generator network.",
            "arXiv 2002.11603",
            page="methods/dp_merf.md",
            extra="gpu",
        ),
        Method(
            "tabddpm",
            lambda: select.Training(),
            "diffusion",
            "One-ways, and a diffusion of rows whose network is trained by noisy gradients.",
            "arXiv 2209.15421",
            page="methods/tabddpm.md",
            extra="gpu",
        ),
        Method(
            "dpsgd_gan",
            lambda: select.Training(rate=Fraction(1, 4), steps=1000),
            "gan",
            "One-ways, and a generator against a discriminator that is trained by noisy gradients.",
            "arXiv 1607.00133 and 1802.06739",
            page="methods/dpsgd_gan.md",
            extra="gpu",
        ),
        Method(
            "pate_gan",
            lambda: select.Votes(),
            "voted_gan",
            "One-ways, and a generator that learns from noisy votes of teachers on parts of the rows.",
            "Yoon et al. 2019, ICLR",
            page="methods/pate_gan.md",
            extra="gpu",
        ),
        Method(
            "privpgd",
            lambda: select.AllKWay(),
            "particles",
            "All pairs alike; particles moved to them by sliced optimal transport.",
            "Donhauser et al. 2024, ICML, PMLR 235",
            page="methods/privpgd.md",
            extra="gpu",
        ),
        Method(
            "private_gsd",
            lambda: select.AllKWay(),
            "genetic",
            "All pairs alike; a genetic search for rows that have them.",
            "arXiv 2306.03257",
            page="methods/private_gsd.md",
        ),
        Method(
            "aim_grem",
            lambda: select.AIM(),
            "residual",
            "AIM's choice, marginals rebuilt from residuals.",
            "arXiv 2410.01091",
            page="methods/residual.md",
        ),
        Method(
            "residual_planner",
            lambda: select.ResidualPlanner(),
            "residual",
            "All pairs with optimal noise, rebuilt from residuals without a negative count.",
            "arXiv 2305.08175 and 2410.01091",
            page="methods/residual.md",
        ),
        Method(
            "slicing",
            lambda: select.Slices(),
            "mixture",
            "A noisy copy of every row; tables of pairs from its second moments, a mixture of products.",
            "arXiv 2410.19941",
            page="methods/slicing.md",
        ),
        Method(
            "slice_fdiv",
            lambda: select.SliceTraining(),
            "slice_fdiv",
            "A noisy copy of every row; a generator trained by a smoothed-sliced f-divergence.",
            "arXiv 2410.19941",
            page="methods/slice_fdiv.md",
            extra="gpu",
        ),
        Method(
            "slice_wass",
            lambda: select.SliceTraining(),
            "slice_wass",
            "A noisy copy of every row; a generator trained by the sliced Wasserstein distance.",
            "Rakotomamonjy and Ralaivola 2021, arXiv 2107.01848",
            page="methods/slice_fdiv.md",
            extra="gpu",
        ),
        Method(
            "independent",
            lambda: select.AllKWay(degree=1),
            "independent",
            "One-way marginals only; columns independent. A baseline.",
            "folklore",
            page="methods/independent.md",
        ),
    )
}


def method(name: str) -> Method:
    """The method of a name.

    Raises:
        InputError: There is none.
    """
    found = find_entry(METHODS, name)
    if found is None:
        raise InputError(invalid("method", f"one of {sorted(METHODS)}", "Pick one.", got=name))
    return found


def register_method(entry: Method) -> None:
    """Add a method, so that Python, plans and the command line know its name.

    Raises:
        InputError: The name is taken by another method.
    """
    add_entry(METHODS, entry.name, entry, "the method")
