"""owner_sizes: how many rows owners have, for choosing how many of them to use.

**Privacy.** Unit: one owner with all their rows, however many; no cap is needed. The answer is the histogram
of owners by their number of rows, in cells that `most`, which is public, fixes (`size_starts`): an owner is
counted once, in exactly one cell. *add_remove*: one cell changes by 1, squared L2 sensitivity 1.
*replace_one*: one owner leaves a cell and another enters one, at most 2. Gaussian noise of variance
l2^2 / (2 rho), rounded up, costs rho (`Gaussian`, with its proof). All of the ledger's rho is spent on it,
and recorded before the noise is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.release import NoisyMarginal

if TYPE_CHECKING:
    from margrave.protocols import Source

MAX_SINGLE_CELL = 8
"""Numbers of rows up to this one have a cell each; then there are about four cells to a doubling."""


def size_starts(most: int) -> tuple[int, ...]:
    """The least number of rows of each cell; the last cell holds whoever has more than `most`."""
    starts = list(range(1, min(MAX_SINGLE_CELL, most) + 1))
    # A factor of 2^(1/4) each, and one more row at least.
    while (following := max(starts[-1] + 1, round(starts[-1] * 2**0.25))) <= most:
        starts.append(following)
    return (*starts, most + 1)


def owner_sizes(source: Source, most: int, ledger: Ledger, noise: BitSource | None = None) -> NoisyMarginal:
    """Owners by how many rows they have, with Gaussian noise.

    **Privacy.** Costs all that the ledger has left; proof at the head of this file.

    Args:
        source: The private table, all rows in it.
        most: Owners with more rows share the last cell; at least 1.
        ledger: Of a run that protects owners.
        noise: Source of random bits, the ledger's by default; anything else is for tests of margrave itself.

    Returns:
        The counts in owners, one a cell of `size_starts(most)`.

    Raises:
        InputError: The ledger protects rows, most is below 1, or the owner column cannot be used.
        BudgetError: Nothing is left.
    """
    neighbours = ledger.neighbours
    if neighbours.unit.owner is None:
        raise InputError(invalid("owner", "a column", "Name the one that says whose row it is."))
    if most < 1:
        raise InputError(invalid("most", "at least 1", "Try most=64.", got=most))
    # An owner is in one cell of the histogram: one that comes or goes moves one count by 1, one that is
    # replaced two.
    squared = 1 if neighbours.adjacency == "add_remove" else 2
    exact = source.sizes(neighbours.unit.owner, most)
    gaussian = Gaussian(ledger, ledger.choose_noise(noise), squared)
    # The sizes are asked for in a run of their own, so they get all of it.
    rho = ledger.remaining
    starts = np.asarray(size_starts(most)) - 1
    names = [f"owners by rows, 1 to {most} and more"]
    # Cells of single sizes are added up to those of `size_starts`; sizes begin at 1, so cell 0 is size 1.
    (noisy,), sigma = gaussian.ask(names, rho, lambda: [np.add.reduceat(exact.reveal(), starts)])
    return NoisyMarginal(("rows",), noisy, sigma)
