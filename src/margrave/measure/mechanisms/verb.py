"""Verb: a question about marginals that is written outside the package and asked at the door.

A verb says which exact tables it reads, what whole numbers it makes of them, and by how much one unit can
move these. The door counts, has the spend in the ledger, calls `exact` and adds the noise that this
sensitivity and rho call for, in this order; a verb never sees the noise.

**A verb is trusted code**, and so is the strategy that holds it, like the rooms that touch rows: `exact` sees
exact tables, and could keep them for its strategy, print them or send them away. Nothing here can prevent
that. What the door sees to is that a verb's mistakes are paid for and say little (`read_exact`).

**Privacy.** Unit and adjacency: the ledger's. Let f be `exact`, a vector of integers, and s its
`l2_squared` for the ledger's neighbours. If ‖f(D) - f(D')‖_2^2 <= s for all neighbours D and D', then f
with independent noise of variance s / (2 rho), rounded up, costs at most rho in zCDP and mu = sqrt(2 rho)
in GDP (`Gaussian` has the proof). **That bound is the verb's to prove**, in its docstring, as those of the
package do; what the door holds it to is that the answer is made of integers and of the shape that the verb
has stated before, since a shape that followed from the rows would be an answer of its own.

*A failure.* `exact` may fail, or give something else than was stated, by what it sees. That it does is a
sharp fact about the rows, which no epsilon covers; so it is asked for after the event is recorded. Whatever
goes wrong becomes one error without a word of the verb, and the curator answers nothing any more: a run
tells such a fact once at most, and the ledger, or the book, shows that it was spending then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.unit import Neighbours
from margrave.schema.domain import Clique


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

        It must not fail: that it did would tell about the rows, and it ends the run.
        """


def read_exact(verb: Verb, shape: tuple[int, ...], tables: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A verb's exact answer, found to be integers of a shape. **Not private**, and neither is a failure.

    To be called once the event is recorded. The verb is given copies of the tables.

    Args:
        verb: The question.
        shape: What the verb has stated before the tables were counted.
        tables: One a clique, in rows.

    Raises:
        InputError: It failed, in whatever way, or the answer is something else. The error is the same in all
            cases, and has no cause and no context: an error of the verb's own may hold private values.
        KeyboardInterrupt: Somebody stopped the process meanwhile.
    """
    found, stopped = None, False
    try:
        found = np.asarray(verb.exact([table.copy() for table in tables]))
    except KeyboardInterrupt:
        stopped = True
    except BaseException:  # SystemExit, say, may hold private values as well
        found = None
    # Raised outside of the handlers, so that neither error has the verb's own as its context.
    if stopped:
        raise KeyboardInterrupt
    if found is None or found.shape != shape or found.dtype.kind not in "iu":
        constraint = "one whose answer is whole numbers of its shape, whatever the rows are"
        remedy = "What was asked stays spent, and this run is over: mend `exact`, then start a new run."
        raise InputError(invalid("verb", constraint, remedy))
    return found.astype(np.int64)
