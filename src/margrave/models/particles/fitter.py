"""Particles: PrivPGD, particles moved by gradient descent to the nearest distributions of noisy marginals.

At last particles become codes, the nearest ones that the rules allow together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Effort
from margrave.models._base.constraints import zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.pooling import Pooled
from margrave.models._mixture.constraint_blocks import ConstraintBlock, constraint_blocks
from margrave.models._sampling.rows import RowModel, row_dtype, row_model_from_state, ruled_rows
from margrave.models._torch.device import open_device, ready, serial
from margrave.models.particles.embedding import Embedding, Projection, embed, project, quantise_shares
from margrave.models.particles.transport import Goal, Transport, move
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.models.particles.transport import Penalty
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

AT_ONCE = 1 << 22
"""Distances held at once."""


def code_particles(embedding: Embedding, domain: Domain, at: NDArray[np.float32]) -> NDArray[np.int64]:
    """Each particle's codes: the nearest, and for attributes that rules tie together the nearest allowed.

    Args:
        embedding: Of the attributes that the particles have.
        domain: Of all attributes, with rules.
        at: Where the particles are, shape [particles, embedding.width].

    Returns:
        Shape [attributes, particles].
    """
    names = embedding.domain.names
    found = np.stack([embedding.nearest(name, at[:, embedding.columns(name)]) for name in names])
    for constraint in constraint_blocks(domain):
        if set(constraint.names) <= set(names):
            rows = [names.index(name) for name in constraint.names]
            found[rows] = _move_to_allowed(embedding, constraint, at, found[rows])
    return found


def _move_to_allowed(
    embedding: Embedding, constraint: ConstraintBlock, at: NDArray[np.float32], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The codes with those of particles in no allowed cell replaced by the nearest cell's."""
    keys = np.ravel_multi_index(tuple(codes), constraint.sizes)
    # Only particles whose nearest codes are forbidden together are moved.
    wrong = np.flatnonzero(~np.isin(keys, np.ravel_multi_index(tuple(constraint.codes), constraint.sizes)))
    # As many particles at once as their distances to all allowed cells fit into the limit.
    most = max(AT_ONCE // constraint.codes.shape[1], 1)
    for first in range(0, len(wrong), most):
        mine = wrong[first : first + most]
        apart = np.zeros((len(mine), constraint.codes.shape[1]))
        for name, own in zip(constraint.names, constraint.codes, strict=True):
            points, places = at[mine, embedding.columns(name)], embedding.place(name)
            each = ((points[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
            # Squared distances add up over attributes.
            apart += each[:, own]
        codes[:, mine] = constraint.codes[:, apart.argmin(axis=1)]
    return codes


Floats = NDArray[np.float64]

UNORDERED_CHOICES = ("apart", "line")
ROUGH_EPOCH_DIVISOR = 5
"""A rough fit has this part of the epochs and of the projection's steps."""


@dataclass(frozen=True, slots=True)
class Particles(Estimator[RowModel]):
    """PrivPGD (Donhauser, Abad, Hulkund and Yang 2024): particles whose marginals are near in sliced W2.

    1. Projection: each noisy table becomes the distribution nearest to it in SW1 (`projection`), quantised.
    2. Descent: particles start anywhere in the embedding (`embedding`) and are moved by Adam to lower the
       sum over tables of SW2^2 plus a penalty (`transport`, `penalty`).
    3. Each particle becomes a row of the nearest codes, of those that rules allow.

    Particles stand for rows, so all answers are counts of them (`rowwise.model`), and a saved model needs no
    PyTorch. Attributes that were not measured are uniform. Tables weigh by precision over the largest one.

    The paper's own settings, for a GPU: particles=100_000, epochs=1000, directions=10, batch=5, rate=0.1,
    last=0.0003, kept=0.2, projection_steps=1750. The defaults are for a processor: so few epochs need longer
    and more steps to bring particles from anywhere to where they belong.

    Args:
        particles: How many.
        epochs: How often every table is seen.
        directions: Random directions for each table each time.
        batch: Tables in one step.
        rate: Adam's first step length, in units of the embedding; it falls evenly in its logarithm.
        last: Its last one.
        kept: Share of the gradient's entries that move in a step.
        projection_steps: Steps of the projection, on 10 of `projection_directions` each.
        projection_directions: Directions that stand for all in the projection.
        unordered: "line" places codes of every attribute evenly on [0, 1] (the paper); "apart" gives codes
            without an order an axis each, seen in a random order by each direction.
        places: Coordinates for some attributes' codes, shape [size, dimensions], such as towns on a map.
        penalty: A further term of the loss, see `Penalty`; it may know released or public numbers only. In a
            step it counts by the step's tables, once for five, and pulls ten times as hard at most.
        seed: Of starting points, directions and batches.
        max_cells: Most cells of a table.
        device: Where to compute: "cpu" or None, "cuda", "cuda:1" or "mps", all with PyTorch.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: The device needs PyTorch, which is not installed.
    """

    particles: int = 10_000
    epochs: int = 100
    directions: int = 2
    batch: int = 2
    rate: float = 0.2
    last: float = 0.003
    kept: float = 1.0
    projection_steps: int = 300
    projection_directions: int = 200
    unordered: str = "line"
    places: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    penalty: Penalty | None = None
    seed: int = 0
    max_cells: int = 1_000_000
    device: str | None = None
    name: ClassVar[str] = "particles"
    fit_seconds: ClassVar[float] = 1.5e-1

    def __post_init__(self) -> None:
        check_counts(
            particles=self.particles,
            epochs=self.epochs,
            directions=self.directions,
            batch=self.batch,
            projection_directions=self.projection_directions,
            max_cells=self.max_cells,
            projection_steps=self.projection_steps,
        )
        for param, value in (("rate", self.rate), ("last", self.last)):
            if not (np.isfinite(value) and value > 0):
                raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=value))
        if not 0 < self.kept <= 1:
            raise InputError(invalid("kept", "above 0 and at most 1", "Try 1.", got=self.kept))
        if self.unordered not in UNORDERED_CHOICES:
            raise InputError(
                invalid("unordered", f"one of {UNORDERED_CHOICES}", "Pick one.", got=self.unordered)
            )
        if self.device not in (None, "cpu"):
            open_device(self.device)
        # Plain numbers, so that the fitter's repr tells one map from another.
        plain = {n: tuple(tuple(map(float, at)) for at in place) for n, place in self.places.items()}
        object.__setattr__(self, "places", plain)

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> RowModel:
        """The particles that come near to the measurements; see the class.

        A rough fit starts from the particles of `warm`, with a fifth of the epochs; any other starts afresh,
        so that it depends on the measurements alone. After the effort's deadline no step is taken.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or one is too large.
            SchemaError: A table or an argument names an attribute the domain does not have.
            MissingExtraError: PyTorch is not installed.
        """
        self.admit(domain, [table.clique for table in tables])
        seen = domain.canonical({name for table in tables for name in table.clique})
        if not seen:
            return RowModel(domain, rows, (), np.zeros((0, 1), dtype=row_dtype(domain)))
        start = warm if effort.rough and isinstance(warm, RowModel) else None
        with serial(ready(self.device)):
            # Cells that rules forbid get a sigma of 0, by which the projection knows them.
            known = zero_forbidden(domain, tables, np.inf)
            codes = self._codes(domain, domain.project(seen), known, rows, start, effort)
        model = RowModel(domain, rows, seen, codes)
        if domain.rules is None:
            return model
        return RowModel(domain, rows, seen, ruled_rows(model, np.random.default_rng(self.seed)))

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> RowModel:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of particles over this domain.
        """
        return row_model_from_state(domain, state)

    def prepare(self) -> None:
        """Check that PyTorch is there, before anything is spent.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        ready(self.device)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check sizes, places, the penalty and that PyTorch is there, before anything is measured.

        Raises:
            InputError: A clique has more than max_cells cells, or an argument does not fit the domain.
            SchemaError: An argument names an attribute the domain does not have.
            MissingExtraError: PyTorch is not installed.
        """
        self.prepare()
        embedding = embed(domain, self.unordered, self.places)
        if self.penalty is not None:
            self.penalty.admit(embedding)
        for clique in cliques:
            if domain.size(clique) > self.max_cells:
                remedy = "Leave it out, or raise max_cells."
                raise InputError(invalid("cliques", f"of at most {self.max_cells} cells", remedy, got=clique))

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of all tables with each one candidate, infinite with one of more than max_cells."""
        held = {domain.canonical(clique) for clique in cliques}
        start = sum(self._cells(domain, clique) for clique in held)
        asked = [domain.canonical(clique) for clique in candidates]
        more = [0.0 if clique in held else self._cells(domain, clique) for clique in asked]
        return np.maximum(start + np.asarray(more, dtype=np.float64), 1.0)

    def _cells(self, domain: Domain, clique: Clique) -> float:
        cells = domain.size(clique)
        return float(cells) if cells <= self.max_cells else float("inf")

    def _codes(
        self,
        domain: Domain,
        seen: Domain,
        tables: Sequence[Pooled],
        rows: float,
        warm: RowModel | None,
        effort: Effort,
    ) -> NDArray[Any]:
        """The particles' codes of the attributes seen, shape [attributes, particles]."""
        device, rng = ready(self.device), np.random.default_rng(self.seed)
        places = {name: place for name, place in self.places.items() if name in seen}
        embedding = embed(seen, self.unordered, places)

        def stop() -> bool:
            return effort.over

        part = ROUGH_EPOCH_DIVISOR if effort.rough else 1
        how = Projection(self.projection_directions, 10, max(self.projection_steps // part, 1))
        shares = project(embedding, tables, rows, how, device, rng, stop)
        sigmas = [float(np.sqrt((table.sigma**2).mean())) for table in tables]
        # A table weighs by 1 / variance, over that of the least noisy one; a table that is known for certain
        # weighs 1.
        best = min((s for s in sigmas if s > 0), default=1.0)
        goals = [
            Goal(
                table.clique,
                quantise_shares(share, self.particles),
                min(best / sigma, 1.0) ** 2 if sigma else 1.0,
            )
            for table, share, sigma in zip(tables, shares, sigmas, strict=True)
        ]
        epochs = max(self.epochs // part, 1)
        # Steps as long as a fresh start needs would undo what a warm one knows.
        # The geometric mean of the first and the last step length.
        rate = self.rate if warm is None else float(np.sqrt(self.rate * self.last))
        steps = Transport(epochs, self.directions, self.batch, rate, self.last, self.kept)
        start = self._start(embedding, warm, rng)
        at = move(embedding, start, goals, steps, self.penalty, device, rng, stop)
        return code_particles(embedding, domain, at).astype(row_dtype(seen))

    def _start(self, embedding: Embedding, warm: RowModel | None, rng: np.random.Generator) -> Floats:
        """Particles anywhere on lines and maps, on any of the axes; or where an earlier model's rows are."""
        # Anywhere in the unit box, which is right for lines and maps; attributes with an axis a code start on
        # an axis.
        start = rng.random((self.particles, embedding.width))
        held = {} if warm is None or warm.rows != self.particles else _columns(warm)
        for name in embedding.domain.names:
            if name in held:
                start[:, embedding.columns(name)] = embedding.place(name)[held[name]]
            elif name in embedding.apart:
                codes = rng.integers(0, embedding.domain[name], self.particles)
                start[:, embedding.columns(name)] = embedding.place(name)[codes]
        return start


def _columns(model: RowModel) -> dict[str, NDArray[Any]]:
    """The rows a model is made of, by attribute."""
    state = model.state()
    return {model.domain.names[int(i)]: codes for i, codes in zip(state["held"], state["rows"], strict=True)}
