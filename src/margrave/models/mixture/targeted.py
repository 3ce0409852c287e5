"""Targeted: a mixture whose target attribute is drawn given all others from an additive model.

A mixture spends components on what a label owes to each attribute, and a label is what people train
classifiers on. Its log-odds are nearly additive, and the released pairs with the target say what each
attribute adds. So the others come from the mixture and the target from p(y | x) of
`margrave.models.additive`, fitted to rows of the mixture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models.additive import Additive, fit_additive
from margrave.models.mixture.model import MixtureModel
from margrave.models.mixture.rows import draw
from margrave.schema.domain import Clique

if TYPE_CHECKING:
    from margrave.models.pooled import Pooled

__all__ = ["Target", "remembered", "targeted"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

REFERENCE = 1 << 15
"""Rows of the mixture that the additive model is fitted on and that expectations are taken over."""
PROPOSALS = 4
"""Rows drawn for each row kept when the target is given."""
CHUNK = 1 << 14
"""Rows whose posterior over the components is held at once."""


class Target:
    """How one attribute is drawn given the others.

    Args:
        model: The mixture, without a target.
        additive: p(target | others).
        seed: Of the reference rows.
        reference: The reference rows, a column an attribute.
    """

    def __init__(
        self, model: MixtureModel, additive: Additive, seed: int, reference: Mapping[str, Longs]
    ) -> None:
        self.additive = additive
        self.seed = seed
        self._domain = model.domain
        self._columns = {name: column for name, column in reference.items() if name != self.name}
        self._shares = additive.probabilities(self._columns)

    @property
    def name(self) -> str:
        """The attribute."""
        return self.additive.target

    def project(self, clique: Clique) -> Floats:
        """The marginal of a clique with the target, in proportions, over the reference rows."""
        others = [name for name in clique if name != self.name]
        shape = self._domain.shape(others)
        rows = len(self._shares)
        cells = np.zeros(rows, dtype=np.int64)
        for name in others:
            cells = cells * self._domain[name] + self._columns[name]
        size = int(np.prod(shape))
        table = np.stack(
            [np.bincount(cells, weights=share, minlength=size) for share in self._shares.T], axis=-1
        )
        full = table.reshape(*shape, -1) / rows
        return np.asarray(np.moveaxis(full, -1, clique.index(self.name)))

    def draw(
        self, model: MixtureModel, rows: int, rng: np.random.Generator, evidence: Mapping[str, int]
    ) -> list[Longs]:
        """Rows of the mixture with the target drawn anew, or resampled for a target that is given."""
        names = self._domain.names
        if self.name not in evidence:
            columns = dict(zip(names, draw(model, rows, rng, evidence), strict=True))
            others = {name: column for name, column in columns.items() if name != self.name}
            columns[self.name] = self.additive.draw(others, rng)
            return [columns[name] for name in names]
        many = draw(model, PROPOSALS * rows, rng, evidence)
        columns = dict(zip(names, many, strict=True))
        others = {name: column for name, column in columns.items() if name != self.name}
        code = evidence[self.name]
        wanted = self.additive.probabilities(others)[:, code]
        kept = _systematic(wanted / _explained(model, self.name, others, code), rows, rng)
        return [columns[name][kept] for name in names]

    def state(self) -> dict[str, Floats]:
        """Arrays for `remembered`."""
        own = {f"target_{key}": value for key, value in self.additive.state().items()}
        place = self._domain.index(self.name)
        return own | {"target": np.asarray(float(place)), "target_seed": np.asarray(float(self.seed))}


def targeted(model: MixtureModel, target: str, tables: Sequence[Pooled], seed: int) -> MixtureModel:
    """The mixture with its target drawn from an additive model of the released pairs."""
    reference = _reference(model, seed)
    others = {name: column for name, column in reference.items() if name != target}
    additive = fit_additive(model.domain, target, tables, model.total, others)
    return _with(model, Target(model, additive, seed, reference))


def remembered(model: MixtureModel, state: Mapping[str, Floats]) -> MixtureModel:
    """The mixture with the target that its state tells of, if any.

    Raises:
        ReleaseError: The state is not that of a target in the domain.
    """
    if "target" not in state:
        return model
    place, seed = (np.asarray(state.get(key, np.nan)) for key in ("target", "target_seed"))
    sound = all(part.shape == () and np.isfinite(part) and part >= 0 for part in (place, seed))
    if not (sound and place < len(model.domain)):
        raise ReleaseError(invalid("state", "of a target in the domain", "The release is damaged."))
    target = model.domain.names[int(place)]
    own = {key.removeprefix("target_"): value for key, value in state.items() if key.startswith("target_")}
    additive = Additive.restore(model.domain, target, own)
    return _with(model, Target(model, additive, int(seed), _reference(model, int(seed))))


def _with(model: MixtureModel, target: Target) -> MixtureModel:
    return MixtureModel(
        model.domain, model.total, model.weights, model.shares, model.information, model.descent, target
    )


def _reference(model: MixtureModel, seed: int) -> dict[str, Longs]:
    columns = draw(model, REFERENCE, np.random.default_rng([seed, REFERENCE]), {})
    return dict(zip(model.domain.names, columns, strict=True))


def _explained(model: MixtureModel, target: str, columns: Mapping[str, Longs], code: int) -> Floats:
    """The mixture's own p(target = code | others) of each row, shape [rows]."""
    rows = len(next(iter(columns.values()))) if columns else 0
    blocks = {name: np.log(np.maximum(model.block(name), 1e-30)).astype(np.float32) for name in columns}
    start = np.log(np.maximum(model.weights, 1e-300)).astype(np.float32)
    found = np.empty(rows)
    for first in range(0, rows, CHUNK):
        part = slice(first, min(first + CHUNK, rows))
        logs = np.repeat(start[None, :], part.stop - part.start, axis=0)
        for name, column in columns.items():
            logs += blocks[name][column[part]]
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        found[part] = (weights @ model.block(target)[code]) / weights.sum(axis=1)
    return np.maximum(found, 1e-12)


def _systematic(weights: Floats, rows: int, rng: np.random.Generator) -> Longs:
    """Which rows to keep: `rows` of them, each as often as its weight says, within 1; in random order."""
    ends = np.cumsum(weights)
    points = (rng.random() + np.arange(rows)) / max(rows, 1) * ends[-1] if rows else np.zeros(0)
    return np.asarray(rng.permutation(np.minimum(np.searchsorted(ends, points), len(weights) - 1)))
