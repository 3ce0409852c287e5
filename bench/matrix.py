"""Which selector goes with which generator: docs/methods/matrix.md, found by asking them.

    python bench/matrix.py            # writes the page
    python bench/matrix.py --check    # says whether it is up to date

Rows are the classes of `margrave.select`, columns the names of `margrave.models.registry.FITTERS`. Each pair
is run on a made-up table whose pairs are all dependent and too many for one clique, under the domain WIDE.
The generator answers all that a selector asks before it buys (`admit`, `cells`); the fits between are those
of independent columns, which keeps this fast. A pair that is refused there is one for small domains.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave import Schema, Synthesizer
from margrave import select as selectors
from margrave.errors import InputError
from margrave.methods import METHODS
from margrave.models import Estimator, Independent
from margrave.models.registry import FITTERS, resolve

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods" / "matrix.md"
WIDE = {f"c{i}": 20 for i in range(8)}
"""Columns and their sizes: 28 pairs of 400 cells, 26 billion cells in all."""
ROWS = 2_000
BLIND = ("independent",)
"""Generators that keep no association, whatever was measured."""

HEAD = """# What combines

Written by `python bench/matrix.py`, which asks the code; edit nothing here. A name is that of the method
(`--method`) that is this pair; for any other, `Synthesizer(select=..., model=...)`. Every pair is run by
`tests/contracts/test_matrix.py` on a cut of the shipped table.

- **yes**: at any width. Selectors that ask how large a model would become leave out what does not fit.
- **small**: the selector measures what it has planned, and the generator's model of that is too large on
  wide tables (here: eight columns of 20 codes). It is then refused before anything is spent. Where the
  domain is small it runs.
- **ones**: it runs, but the generator keeps the one-way marginals only, so that rho spent on pairs is mostly
  lost. (The method `independent` is `AllKWay(degree=1)`, which buys no pair.)
- **no**: the generator has no use for what the selector measures, at any size. It is refused before
  anything is spent.
- `TopQ` with one marginal a round (`q=1`) is the selection of MWEM and GEM, with five that of RAP. `AllKWay`
  is shown with pairs (`degree=2`), `Fixed` with a chain of pairs.
- No column is public here: `PrivatePairs` and `ConditionalAIM` buy what they buy then, `gated` and
  `conditional_pgm` draw every column, and every round of `VerticalRounds` and `JAM` measures. `Slices` and
  `SliceTraining` are asked under their adjacency `replace_one`.
"""


SELECTORS = [name for name in selectors.__all__ if name != "Strategy"]
"""The classes of `margrave.select`, their base left out."""


@dataclass(frozen=True)
class Scout(Estimator[Any]):
    """A fitter that answers about sizes as another one does, and fits independent columns."""

    asked: Any

    @property
    def name(self) -> str:
        """That of the other."""
        return str(self.asked.name)

    def admit(self, domain: Any, cliques: Sequence[Any]) -> None:
        """As the other."""
        self.asked.admit(domain, cliques)

    def cells(self, domain: Any, cliques: Sequence[Any], candidates: Sequence[Any]) -> NDArray[np.float64]:
        """As the other."""
        found: NDArray[np.float64] = self.asked.cells(domain, cliques, candidates)
        return found

    def fit(self, *args: Any, **more: Any) -> Any:
        """Independent columns."""
        return Independent().fit(*args, **more)

    def restore(self, *args: Any, **more: Any) -> Any:
        """Independent columns."""
        return Independent().restore(*args, **more)

    @property
    def learns_from(self) -> Any:
        """As the other."""
        return self.asked.learns_from

    def prepare(self) -> None:
        """As the other."""
        self.asked.prepare()

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """As the other."""
        found: tuple[float, float] = self.asked.count_codes(sizes)
        return found

    @property
    def most_codes(self) -> Any:
        """As the other."""
        return self.asked.most_codes

    @property
    def most_cells(self) -> Any:
        """As the other."""
        return self.asked.most_cells

    @property
    def largest(self) -> Any:
        """As the other."""
        return self.asked.largest

    def fit_moments(self, domain: Any, measurements: Any, moments: Any, **more: Any) -> Any:
        """Independent columns."""
        return self.fit(domain, measurements, **more)

    def fit_slices(self, domain: Any, measurements: Any, slices: Any, **more: Any) -> Any:
        """Independent columns."""
        return self.fit(domain, measurements, **more)

    def learner(self, *args: Any) -> Any:
        """As the other."""
        return self.asked.learner(*args)

    def ensemble(self, *args: Any) -> Any:
        """As the other."""
        return self.asked.ensemble(*args)

    def alone(self, work: Any) -> Any:
        """As the other."""
        return self.asked.alone(work)

    def finished(self, learner: Any, weights: Any, found: Any, total: float) -> Any:
        """Independent columns."""
        return self.fit(learner.coding.domain, found, total=total)


def made(name: str, columns: Sequence[str] = tuple(WIDE)) -> Any:
    """A selector of that class, quick where it has rounds."""
    kind = getattr(selectors, name)
    if name == "Fixed":
        return kind(list(itertools.pairwise(columns)))
    quick = {
        "AIM": {"rounds": 12},
        "TopQ": {"rounds": 3},
        "Batched": {"rounds": 2},
        "Training": {"steps": 1},
        "Votes": {"rounds": 1},
    }
    return kind(**quick.get(name, {}))


def adjacency(selector: str) -> Any:
    """An adjacency under which a selector can be asked: the first of its own, where it answers under few."""
    able = getattr(selectors, selector).adjacencies
    return "add_remove" if able is None else min(able)


def wide_table() -> pa.Table:
    """Rows whose every pair of columns is dependent."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 20, ROWS)
    return pa.table(
        {name: np.where(rng.random(ROWS) < 0.6, hidden, rng.integers(0, 20, ROWS)) for name in WIDE}
    )


def answer(selector: str, generator: str, table: pa.Table) -> str:
    """What the pair says to the wide table: it runs, is too large for it, or never goes."""
    synthesizer = Synthesizer(
        select=made(selector),
        model=Scout(resolve(generator)),
        epsilon=10.0,
        delta=1e-6,
        adjacency=adjacency(selector),
        schema=Schema.from_sizes(WIDE),
    )
    try:
        synthesizer.fit(table)
    except InputError as error:
        return "small" if "cells" in str(error) else "no"
    return "ones" if generator in BLIND else "yes"


def named() -> dict[tuple[str, str], list[str]]:
    """Methods by the class of their selector and the name of their generator."""
    found: dict[tuple[str, str], list[str]] = {}
    for method in METHODS.values():
        found.setdefault((type(method.strategy()).__name__, method.fitter), []).append(method.name)
    return found


def matrix() -> dict[tuple[str, str], str]:
    """What a page says of each pair of a selector and a generator."""
    table = wide_table()
    pairs = itertools.product(SELECTORS, FITTERS)
    return {pair: answer(*pair, table) for pair in pairs}


def page(said: Mapping[tuple[str, str], str]) -> str:
    """The page of a matrix."""
    known = named()
    lines = [HEAD, "| | " + " | ".join(f"`{name}`" for name in FITTERS) + " |"]
    lines.append("| --- |" + " --- |" * len(FITTERS))
    for selector in SELECTORS:
        cells = []
        for generator in FITTERS:
            names = [f"`{name}`" for name in known.get((selector, generator), ())]
            cells.append(" ".join([said[selector, generator], *names]))
        lines.append(f"| `{selector}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.check:
        PAGE.write_text(page(matrix()), encoding="utf-8")
        print("written: docs/methods/matrix.md")
    elif PAGE.read_text(encoding="utf-8") != page(matrix()):
        parser.exit(1, "docs/methods/matrix.md is not what the code says: run python bench/matrix.py\n")


if __name__ == "__main__":
    main()
