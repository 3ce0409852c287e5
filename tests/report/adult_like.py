"""A release as a run on an Adult-like table of 15 columns would leave it, made by a seeded generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import Event, ExponentialEvent, GaussianEvent, PartitionEvent
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.schema.columns import Boolean, Categorical, Column, Integer, Ordinal, Real
from margrave.schema.constraints.rules import Rule
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.schema import Schema

ROWS = 32_561
CLASSES = 8
COUNTRIES = tuple(f"Country-{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn")


class Mixture:
    """A mixture of products: exact marginals of any clique in a few lines."""

    found_rules: tuple[Rule, ...] = ()

    def __init__(
        self, domain: Domain, weights: NDArray[np.float64], parts: Mapping[str, NDArray[np.float64]]
    ):
        self.domain, self._weights, self._parts = domain, weights, parts
        self.total = float(ROWS)

    def project(self, clique: Clique) -> NDArray[np.float64]:
        table = np.zeros(self.domain.shape(clique))
        for place, weight in enumerate(self._weights):
            product = np.asarray(weight)
            for name in clique:
                product = np.multiply.outer(product, self._parts[name][place])
            table += product
        return self.total * table

    def project_many(self, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
        return [self.project(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator, given: Mapping[str, int] | None = None) -> Encoded:
        chosen = rng.choice(len(self._weights), rows, p=self._weights)
        columns = []
        for name, size in zip(self.domain.names, self.domain.sizes, strict=True):
            cumulative = self._parts[name].cumsum(axis=1)[chosen]
            codes = (rng.random((rows, 1)) > cumulative).sum(axis=1).clip(0, size - 1)
            columns.append(codes.astype(code_dtype(size)))
        return Encoded(self.domain, tuple(columns))

    def state(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def blurred(self, rng: np.random.Generator, by: float) -> Mixture:
        """A mixture near this one, as a fit would be."""
        parts = {name: _shares(part * rng.lognormal(0, by, part.shape)) for name, part in self._parts.items()}
        return Mixture(self.domain, self._weights, parts)


def _shares(table: NDArray[np.float64]) -> NDArray[np.float64]:
    return table / table.sum(axis=1, keepdims=True)


def schema() -> Schema:
    work = ("Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Self-emp-inc", "Federal-gov")
    marital = ("Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed")
    jobs = tuple(
        f"{first}-{last}" for first in ("Prof", "Craft", "Exec", "Adm", "Sales", "Other") for last in "ab"
    )
    school = (
        "Preschool",
        "1st-4th",
        "5th-6th",
        "HS-grad",
        "Some-college",
        "Bachelors",
        "Masters",
        "Doctorate",
    )
    found = {"strict": False}
    columns: tuple[Column, ...] = (
        Integer(name="age", lower=17, upper=90, missing=False, **found),
        Categorical(name="workclass", values=work, other="other", missing=True, **found),
        Integer(name="fnlwgt", lower=12_285, upper=1_490_400, bins=32, missing=False, **found),
        Ordinal(name="education", values=school, missing=False),
        Integer(name="education-num", lower=1, upper=16, missing=False, **found),
        Categorical(name="marital-status", values=marital, missing=False, **found),
        Categorical(name="occupation", values=jobs, other="other", missing=True, **found),
        Categorical(name="relationship", values=("Husband", "Wife", "Own-child", "Unmarried"), missing=False),
        Categorical(name="race", values=("A", "B", "C", "D", "E"), other="other", missing=False, **found),
        Categorical(name="sex", values=("Male", "Female"), missing=False),
        Integer(name="capital-gain", lower=0, upper=99_999, missing=False, **found),
        Real(name="capital-loss", lower=0.0, upper=4356.5, bins=24, missing=False, **found),
        Integer(name="hours-per-week", lower=1, upper=99, missing=True, **found),
        Categorical(name="native-country", values=COUNTRIES, other="other", missing=True, **found),
        Boolean(name="income>50K", missing=False),
    )
    return Schema(columns)


def truth(domain: Domain, seed: int = 1) -> Mixture:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(CLASSES, 4.0))
    parts = {}
    for name, size in zip(domain.names, domain.sizes, strict=True):
        codes = np.arange(size)
        middles = rng.uniform(0.02, 0.75, (CLASSES, 1)) * size
        bell = np.exp(-0.5 * ((codes - middles) / (0.08 * size + 0.6)) ** 2)
        decay = np.exp(-codes / (0.12 * size + 0.4))
        parts[name] = _shares(0.8 * bell + 0.3 * decay + 0.002)
    return Mixture(domain, weights, parts)


def _noisy(real: Mixture, clique: Clique, sigma: float, rng: np.random.Generator) -> NoisyMarginal:
    table = real.project(clique)
    return NoisyMarginal(clique, np.rint(table + rng.normal(0, sigma, table.shape)), sigma)


def _columns(
    real: Mixture, known: Schema, rng: np.random.Generator
) -> tuple[list[Event], list[NoisyMarginal]]:
    events: list[Event] = []
    tables = []
    variance = Fraction(2400)
    for column in known.columns:
        if column.kind == "categorical" and not column.strict:
            delta = Fraction(1, 10**7)
            events.append(PartitionEvent(f"values of {column.name}", 1, variance, 280, delta))
        else:
            events.append(GaussianEvent(f"marginal {column.name}", 1, variance))
        tables.append(_noisy(real, (column.name,), float(variance) ** 0.5, rng))
    return events, tables


def _pairs(
    real: Mixture, known: Schema, rng: np.random.Generator
) -> Iterator[tuple[list[Event], NoisyMarginal]]:
    pairs = list(combinations(known.names, 2))
    for place, pick in enumerate(rng.permutation(len(pairs))[:30].tolist()):
        late = place >= 20
        variance, epsilon, left = (
            Fraction(5200, 4 if late else 1),
            Fraction(1, 25 if late else 50),
            105 - place,
        )
        choice = ExponentialEvent(f"choice among {left} marginals", epsilon, Fraction(1), left)
        measured = GaussianEvent("marginal " + " x ".join(pairs[pick]), 1, variance)
        yield [choice, measured], _noisy(real, pairs[pick], float(variance) ** 0.5, rng)


def release(seed: int = 1) -> tuple[Release, Mixture, Encoded, Encoded]:
    """The release, its model, synthetic rows and the (made-up) real rows."""
    rng = np.random.default_rng(seed)
    known = schema()
    real = truth(known.domain, seed)
    events, tables = _columns(real, known, rng)
    for event, table in _pairs(real, known, rng):
        events += event
        tables.append(table)
    spent = sum((event_rho(event) for event in events), Fraction(0))
    guarantee = Guarantee(1.0, 1e-6, float(spent) * 1.004, Neighbours(Unit(), "add_remove"), "zcdp")
    dtypes = {column.name: "int64" if column.kind == "integer" else "string" for column in known.columns}
    notes = {"margrave": "0.1.0", "source": "a table of 15 columns"}
    made = Release(
        known,
        tuple(tables),
        guarantee,
        tuple(events),
        "aim",
        "pgm",
        {},
        ROWS + 12.0,
        "pandas",
        dtypes,
        notes,
    )
    model = real.blurred(rng, 0.05)
    return made, model, model.sample(ROWS, rng), real.sample(ROWS, rng)
