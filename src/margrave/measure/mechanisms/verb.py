"""Verb: a question about marginals that is written outside the package and asked at the door.

A verb says which exact tables it reads, what whole numbers it makes of them, and by how much one unit can
move these. The door counts, adds the noise that this sensitivity and rho call for, and has the spend in the
ledger before it draws: a verb never sees the noise, and what it makes of exact tables is never returned as
it is.

**Privacy.** Unit and adjacency: the ledger's. Let f be `exact`, a vector of integers, and s its
`l2_squared` for the ledger's neighbours. If ‖f(D) - f(D')‖_2^2 <= s for all neighbours D and D', then f
with independent noise of variance s / (2 rho), rounded up, costs at most rho in zCDP and mu = sqrt(2 rho)
in GDP (`Gaussian` has the proof). **That bound is the verb's to prove**, in its docstring, as those of the
package do; what the door holds it to is that the answer is made of integers and of the shape that the verb
has stated, since a shape that followed from the rows would be an answer of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.unit import Neighbours
from margrave.schema.domain import Clique

__all__ = ["Verb", "read_exact"]


class Verb(ABC):
    """A question for `Curator.answer`; see the head of this file for what it has to prove.

    All but `exact` follows from public things alone: the schema, earlier releases, the verb's own arguments.
    """

    @property
    @abstractmethod
    def words(self) -> str:
        """What is asked, in a few public words, for the ledger."""

    @property
    @abstractmethod
    def cliques(self) -> Sequence[Clique]:
        """The marginals whose exact tables it reads."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""

    @abstractmethod
    def l2_squared(self, neighbours: Neighbours) -> int:
        """By how much one unit can move the exact answer at most, in squared L2, a whole number above 0."""

    @abstractmethod
    def exact(self, tables: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The exact answer, from one table a clique, in rows. **Not private**: the door adds noise to it.

        It must not fail: whether it does would tell about the rows.
        """


def read_exact(verb: Verb, tables: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A verb's exact answer, found to be integers of the shape it has stated. **Not private.**

    Raises:
        InputError: It is not. The error holds no value.
    """
    found = np.asarray(verb.exact([table.copy() for table in tables]))
    if found.shape != verb.shape or found.dtype.kind not in "iu":
        raise InputError(invalid("verb", "one whose answer is whole numbers of its shape", "Mend `exact`."))
    return found.astype(np.int64)
