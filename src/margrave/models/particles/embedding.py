"""Embedding: where the codes of each attribute lie, and the directions in which particles are looked at.

A noisy table, whose cells may be negative, is projected onto the nearest distribution by SW1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._base.pooling import Pooled
from margrave.models._torch.device import Device
from margrave.schema.domain import Clique, Domain

Floats = NDArray[np.float64]

MAX_APART_CODES = 64
"""Unordered attributes with more codes lie on a line even when each code is to have an axis of its own."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """Each attribute's codes as points of a space of its own, the spaces side by side.

    Args:
        domain: Names and sizes of the attributes.
        places: Of each attribute's codes, shapes [size, dimensions].
        apart: Attributes whose codes have an axis each and no order.
    """

    domain: Domain
    places: tuple[Floats, ...]
    apart: frozenset[str]

    @property
    def width(self) -> int:
        """Dimensions of all attributes together."""
        return sum(place.shape[1] for place in self.places)

    def columns(self, name: str) -> slice:
        """Where an attribute's dimensions lie."""
        at = self.domain.index(name)
        start = sum(place.shape[1] for place in self.places[:at])
        return slice(start, start + self.places[at].shape[1])

    def place(self, name: str) -> Floats:
        """Where an attribute's codes lie, shape [size, dimensions]."""
        return self.places[self.domain.index(name)]

    def kind(self, clique: Clique) -> tuple[object, ...]:
        """Cliques of one kind have cells at the same places."""
        return tuple(
            (self.domain[n], "apart" if n in self.apart else self.place(n).tobytes()) for n in clique
        )

    def directions(self, clique: Clique, count: int, rng: np.random.Generator) -> list[Floats]:
        """Random directions in a clique's space, one array an attribute, each [dimensions, count].

        On lines and planes they are uniform on the sphere. Among attributes with an axis a code, a direction
        gives each attribute its part of a sphere over attributes, and spaces its codes evenly in a random
        order: every code is as far from its neighbours as on a line, and each order is as likely.
        """
        blocks = [1 if n in self.apart else self.place(n).shape[1] for n in clique]
        normal = rng.standard_normal((sum(blocks), count))
        sphere = normal / np.linalg.norm(normal, axis=0)
        parts, start = [], 0
        for name, width in zip(clique, blocks, strict=True):
            part = sphere[start : start + width]
            start += width
            if name in self.apart:
                # A random order of the corners on a line stands for a direction among them: it takes one
                # number in place of one a code.
                corners = (np.arange(self.domain[name]) + 0.5) / self.domain[name]
                even = np.tile(corners[:, None], count)
                # Uniform numbers in a random order, stretched by the attribute's part of the sphere.
                part = rng.permuted(even, axis=0) * part
            parts.append(part)
        return parts

    def scores(self, clique: Clique, directions: Sequence[Floats]) -> Floats:
        """Each cell's place in each direction, shape [count, cells]."""
        found = np.zeros((directions[0].shape[1], 1))
        for name, part in zip(clique, directions, strict=True):
            # Scores add up over attributes, so those of all cells follow from those of codes.
            of_codes = (self.place(name) @ part).T
            found = (found[:, :, None] + of_codes[:, None, :]).reshape(len(found), -1)
        return found

    def nearest(self, name: str, points: NDArray[np.floating]) -> NDArray[np.int64]:
        """The code nearest to each of some points of an attribute's space, shape [points]."""
        place = self.place(name)
        if name in self.apart:
            return np.asarray(points.argmax(axis=1), dtype=np.int64)
        if place.shape[1] == 1:
            # Given places need not rise with the codes.
            order = np.argsort(place[:, 0], kind="stable")
            line = place[order, 0]
            # On a line the nearest code changes half way between two, which sorting finds for all points at
            # once.
            at = np.searchsorted((line[1:] + line[:-1]) / 2, points[:, 0])
            return np.asarray(order[at], dtype=np.int64)
        best = np.zeros(len(points), dtype=np.int64)
        least = np.full(len(points), np.inf)
        for code, own in enumerate(place):
            apart = ((points - own) ** 2).sum(axis=1)
            closer = apart < least
            best[closer], least[closer] = code, apart[closer]
        return best


def embed(domain: Domain, unordered: str, places: Mapping[str, Sequence[Sequence[float]]]) -> Embedding:
    """The embedding of a domain.

    Args:
        domain: With `ordered`.
        unordered: "line" for codes of every attribute at (x + 1/2) / size on [0, 1] (PrivPGD, equation 4);
            "apart" for an axis a code where codes stand in no order and are at most MAX_APART_CODES.
        places: Coordinates for some attributes, shape [size, dimensions], as of towns; they are moved and
            scaled, all dimensions alike, so that the longest side is [0, 1].

    Raises:
        SchemaError: There is no such attribute.
        InputError: Coordinates are not finite, or not one row a code.
    """
    for name in places:
        domain.index(name)
    found, apart = [], []
    for name, size, ordered in zip(domain.names, domain.sizes, domain.ordered, strict=True):
        if name in places:
            found.append(_scale_given(name, size, np.asarray(places[name], dtype=np.float64)))
        # Codes without an order get a corner each, so that all are as far from each other; with many codes
        # that would take too many dimensions.
        elif unordered == "apart" and ordered == 0 and 2 < size <= MAX_APART_CODES:
            found.append(np.eye(size))
            apart.append(name)
        else:
            found.append(((np.arange(size) + 0.5) / size)[:, None])
    return Embedding(domain, tuple(found), frozenset(apart))


def _scale_given(name: str, size: int, given: Floats) -> Floats:
    if given.ndim != 2 or given.shape[0] != size or not given.shape[1] or not np.isfinite(given).all():
        remedy = "Give each code its coordinates, missing and other values too."
        raise InputError(invalid("places", f"finite, of {size} rows for {name!r}", remedy, got=given.shape))
    low, side = given.min(axis=0), float(np.ptp(given, axis=0).max())
    return np.asarray((given - low) / (side if side > 0 else 1.0))


AT_ONCE = 1 << 23
"""Numbers of a batch of tables times directions times cells at most."""
LEVELS, STEP_DECAY = 17, 0.8
"""The step length falls this often, to this part (PrivPGD: 1,750 steps, every 100 to 0.8 of it)."""


@dataclass(frozen=True, slots=True)
class Projection:
    """How to project.

    Args:
        directions: Random directions that stand for all (PrivPGD: 200).
        each: Directions looked at in one step.
        steps: Steps of Adam on the logarithms of the cells.
        rate: Its first step length.
    """

    directions: int = 200
    each: int = 10
    steps: int = 300
    rate: float = 0.1


def project(
    embedding: Embedding,
    tables: Sequence[Pooled],
    rows: float,
    how: Projection,
    device: Device,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> list[Floats]:
    """For each table the distribution over its cells with the least SW1 from it (PrivPGD, equation 5).

    W1 of two measures on a line is the L1 distance of their distribution functions, which is defined for
    signed ones too (equation 3, Vallender 1974); SW1 is its mean over directions. Cells with a sigma of 0
    are ruled out and stay empty.

    Args:
        embedding: Where cells lie.
        tables: Noisy counts.
        rows: Their sum without noise.
        how: Steps and directions.
        device: Where to compute.
        rng: Of the directions.
        stop: Whether to take no more steps.
    """
    # Tables whose cells lie at the same places share directions and sorting, and are projected together.
    alike = defaultdict(list)
    for k, table in enumerate(tables):
        # Tables of one kind lie on the same points, so their projections are worked out side by side with
        # the same directions.
        alike[embedding.kind(table.clique)].append(k)
    found: dict[int, Floats] = {}
    for members in alike.values():
        clique = tables[members[0]].clique
        cells = tables[members[0]].values.size
        scores = embedding.scores(clique, embedding.directions(clique, how.directions, rng))
        # Tables of one kind are projected together, as many as memory allows.
        most = max(AT_ONCE // (cells * how.each), 1)
        for first in range(0, len(members), most):
            part = members[first : first + most]
            signed = np.stack([tables[k].values.ravel() / rows for k in part])
            barred = np.stack([tables[k].sigma.ravel() == 0.0 for k in part])
            made = _project_tables(device, signed, barred, scores, how, rng, stop)
            found.update(zip(part, made, strict=True))
    return [found[k].reshape(table.values.shape) for k, table in enumerate(tables)]


def _project_tables(
    device: Device,
    signed: Floats,
    barred: NDArray[np.bool_],
    scores: Floats,
    how: Projection,
    rng: np.random.Generator,
    stop: Callable[[], bool],
) -> Floats:
    """Tables of one kind, shape [tables, cells]; scores [directions, cells]."""
    torch = device.torch
    # Where rules leave a table no cell at all, none is ruled out: some distribution has to come back.
    barred = barred & ~barred.all(axis=1, keepdims=True)
    order = np.argsort(scores, axis=1, kind="stable")
    # Gaps between neighbouring cells are what the distribution functions' distance is weighed by.
    gaps = np.diff(np.take_along_axis(scores, order, 1), axis=1)
    orders, lengths = device.put(order, torch.int64), device.put(gaps, torch.float32)
    goal = device.put(signed, torch.float32)
    logits = device.put(_start(signed, barred), torch.float32)
    slope, bend = torch.zeros_like(logits), torch.zeros_like(logits)
    # The step length falls LEVELS times over all steps, however many there are.
    every = max(how.steps // LEVELS, 1)
    for step in range(1, how.steps + 1):
        if stop():
            break
        picked = rng.choice(len(scores), min(how.each, len(scores)), replace=False)
        at = device.put(picked, torch.int64)
        shares = torch.softmax(logits, 1)
        pull = _pull(torch, shares - goal, orders[at], lengths[at])
        # Through the softmax: the derivative by a logit is share * (pull - mean pull under the shares).
        pull = shares * (pull - (shares * pull).sum(1, keepdim=True))
        slope = 0.9 * slope + 0.1 * pull
        bend = 0.999 * bend + 0.001 * pull * pull
        size = how.rate * STEP_DECAY ** (step // every)
        logits -= size * (slope / (1 - 0.9**step)) / ((bend / (1 - 0.999**step)).sqrt() + 1e-10)
    shares = torch.softmax(logits, 1).cpu().numpy().astype(np.float64)
    # Softmax leaves a trace in cells that are ruled out; it is taken away at the end.
    shares = np.where(barred, 0.0, shares)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _pull(torch: Any, miss: Any, orders: Any, lengths: Any) -> Any:
    """The derivative of SW1 by each cell, shape [tables, cells].

    SW1 is the mean over directions of sum_j |F_j| gap_j with F_j the sum of the j lowest cells, so that
    a cell's derivative is the sum of sign(F_j) gap_j over all j from its own place on.
    """
    # Distribution functions along each direction, but for the last value, which is 0.
    running = miss[:, orders].cumsum(2)[:, :, :-1]
    signs = torch.sign(running) * lengths
    below = signs.cumsum(2)
    # Sums from a cell's own place on are the whole less what lies before.
    after = below[:, :, -1:] - below + signs
    whole = torch.nn.functional.pad(after, (0, 1))
    # From sorted places back to cells.
    found = torch.zeros_like(miss)[:, None, :].expand_as(whole).clone()
    return found.scatter_(2, orders.expand_as(whole), whole).mean(1)


def _start(signed: Floats, barred: NDArray[np.bool_]) -> Floats:
    """Logarithms of the positive parts (PrivPGD, section 4.1), with a little in every cell that may be."""
    kept = np.where(barred, 0.0, np.maximum(signed, 0.0))
    whole = np.maximum(kept.sum(axis=1, keepdims=True), 1e-12)
    logs = np.log(kept / whole + 1e-6 / signed.shape[1])
    return np.where(barred, -1e4, logs)


def quantise_shares(shares: Floats, particles: int) -> NDArray[np.int64]:
    """Numbers of particles in the cells, their sum exact and each within 1 of its share (equation 6)."""
    wanted = shares.ravel() * particles
    counts = np.floor(wanted).astype(np.int64)
    # The particles that rounding down left over go to the cells that lost most.
    left = particles - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:left]] += 1
    return counts
