"""MeanEmbedding: what DP-MERF buys: weights of labels, Fourier features of numbers, pairs with the label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.schema.features import fourier, numbers
from margrave.select.strategy import ONE, PAIR, Shares, Strategy

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model, MomentsFitter
    from margrave.release import NoisyMoments

WEIGHTS = Fraction(1, 10)
"""Share of rho for the labels' weights, or for the number of rows where there is no label."""


@final
@dataclass(frozen=True, slots=True)
class MeanEmbedding(Strategy):
    """The mean embedding of DP-MERF (Harder, Adamczewski and Park 2021), label by label.

    A tenth of rho measures the weights of the labels. The rest buys the embedding, of which both parts have
    one norm, as in the paper: random Fourier features of the attributes whose codes stand in order, half;
    and one-hot codes of all others, by label, which are the pairs of each with the label, half. Where one of
    the parts is empty the other gets all. Noise is Gaussian throughout, so GDP accounting applies.

    **Privacy.** All answers are the curator's, with Gaussian noise, so GDP prices them together: marginals
    (`Gaussian`) and sums of bounded features (`margrave.measure.mechanisms.moments` has the sensitivity, in
    whole numbers). A row's features have one norm whatever its label, so that labels cost nothing extra. With
    d attributes that are not numbers a row moves their pairs by root d under add_remove and root (2 d) under
    replace_one, and the Fourier sums by 1 and 2 where a row has norm 1. Frequencies are public: they follow
    from `seed` and the domain. All of rho is spent.

    Args:
        target: The label, an attribute; None for one embedding of all rows.
        frequencies: Fourier features, each a cosine and a sine: half of the paper's F.
        width: Of the Gaussian kernel on numbers that run from 0 to 1, or None; see `schema.embedding`. It is
            never read off the rows.
        seed: Of the frequencies, which are public.
        max_cells: Codes of an attribute are measured without the label where the pair has more cells.

    Raises:
        InputError: An argument is out of range.
    """

    target: str | None = None
    frequencies: int = 1000
    width: float | None = None
    seed: int = 0
    max_cells: int = 1_000_000
    name: ClassVar[str] = "mean_embedding"
    needs_rows: ClassVar[bool] = True
    gaussian_only: ClassVar[bool] = True
    learns_by: ClassVar[LearnsFrom] = "moments"
    options: ClassVar[frozenset[str]] = frozenset({"target"})

    def __post_init__(self) -> None:
        check_counts(frequencies=self.frequencies, max_cells=self.max_cells)
        if self.width is not None and not (math.isfinite(self.width) and self.width > 0):
            raise InputError(invalid("width", "a finite number above 0", "Leave it out.", got=self.width))

    def split_rho(self, counted: bool) -> Shares:
        """With numbers and with listed columns; where there are none of one kind, the other gets all."""
        half = (1 - WEIGHTS) / 2
        return {"weights": WEIGHTS, "features": half, "pairs with the label": half}

    def share_marginal(self, columns: int) -> Shares:
        """Half of the columns listed."""
        pairs = self.split_rho(True)["pairs with the label"]
        return {ONE if self.target is None else PAIR: pairs / max(columns // 2, 1)}

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: The fitter takes no moments, or the target is no attribute.
        """
        self.check_fitter(fitter)
        domain, rho = curator.domain, curator.remaining
        if self.target is not None and self.target not in domain:
            raise InputError(invalid("target", f"one of {list(domain.names)}", "Check it.", got=self.target))
        listed, ordered = self._list_marginals(domain), numbers(domain, self.target)
        first: list[Clique] = [()] if self.target is None else [(self.target,)]
        if self.target is None and (curator.public_rows is not None or not ordered):
            first = []  # the number of rows is public, or every other table tells it
        fitter.admit(domain, [*first, *listed])
        on_step(Step("measure", "weights of the labels", 0, curator.progress))
        curator.measure(first, rho * self.split_rho(True)["weights"] if ordered or listed else rho)
        found = self._bought(curator, listed, bool(ordered), on_step)
        on_step(Step("fit", "a generator", 0, 1.0))
        return cast("MomentsFitter", fitter).fit_moments(
            domain,
            curator.measurements,
            found,
            total=curator.public_rows,
            effort=Effort(deadline=deadline),
        )

    def _list_marginals(self, domain: Domain) -> list[Clique]:
        """The marginals that the one-hot part of the embedding is made of."""
        others = set(domain.names) - {self.target, *numbers(domain, self.target)}
        pairs = [(name,) if self.target is None else (self.target, name) for name in domain.names]
        return [
            pair if domain.size(pair) <= self.max_cells else pair[-1:] for pair in pairs if pair[-1] in others
        ]

    def _bought(
        self, curator: Curator, listed: list[Clique], ordered: bool, on_step: OnStep
    ) -> NoisyMoments | None:
        """Both parts of the embedding, for all of rho; the moments of numbers, if there are any."""
        found, rho = None, curator.remaining
        if ordered:
            on_step(Step("measure", f"{self.frequencies} Fourier features", 0, curator.progress))
            rng = np.random.default_rng(self.seed)
            features = fourier(curator.domain, self.target, self.frequencies, self.width, rng)
            found = curator.moments(features, rho / 2 if listed else rho)
        if listed:
            on_step(Step("measure", f"{len(listed)} marginals", 0, curator.progress))
            curator.measure(listed, curator.remaining / len(listed))
        return found
