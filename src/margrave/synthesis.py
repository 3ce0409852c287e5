"""Synthesis: a release with its fitted model, from which everything is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Limits, Stopwatch
from margrave.progress import OnStep, Step, keep_telling, silent
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.protocols import Model
    from margrave.schema.encoded import Encoded
    from margrave.schema.given import Given

__all__ = ["Rng", "Synthesis", "load"]

Rng = np.random.Generator | int | None


REPORT_ROWS = 100_000
"""Most synthetic rows drawn for the pictures of a report."""


class Synthesis:
    """What a run released, ready to be sampled. Using it costs nothing: it is all post-processing.

    Args:
        release: All that left the private side.
        model: The model fitted to it.
    """

    def __init__(self, release: Release, model: Model) -> None:
        self.release = release
        self.model = model

    @property
    def guarantee(self) -> Guarantee:
        """What was spent, on whom, under which adjacency."""
        return self.release.guarantee

    @property
    def schema(self) -> Schema:
        """The schema, declared or discovered."""
        return self.release.schema

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        """The noisy marginals, in the order they were released."""
        return self.release.measurements

    @property
    def rows(self) -> int:
        """How many rows the model stands for: the noisy or public row count, rounded."""
        return max(round(self.release.total), 0)

    def marginal(self, *names: str) -> NDArray[np.float64]:
        """The model's table of some columns, in rows: shape [codes of each column]."""
        return self.model.project(tuple(names))

    def table(
        self,
        *names: str,
        level: float = 0.95,
        source: Literal["best", "measured", "model"] = "best",
        replicates: int = 20,
        rng: Rng = None,
    ) -> pa.Table:
        """The contingency table of some columns with standard errors and confidence limits, one row a cell.

        Args:
            names: Columns; one or more.
            level: Of the confidence limits, cell by cell.
            source: "measured": unbiased, from noisy tables that hold the columns; "model": from the model,
                with a bootstrap of `replicates` refits; "best": the first where it can be had.
            replicates: Refits.
            rng: Of the bootstrap.

        Returns:
            An Arrow table: the columns' labels, count, std_error, lower, upper, all in rows.

        Raises:
            SchemaError: There is no such column. InputError: see `margrave.tables.estimates`.
        """
        import pyarrow as pa

        from margrave.tables.estimates import estimates
        from margrave.tables.labelled import cells_of

        found = estimates(self.release, self.model, [names], source=source, replicates=replicates, rng=rng)
        return pa.table(cells_of(found[0], self.schema, level))

    def write_tables(
        self, path: str | Path, cliques: Sequence[Sequence[str]] | None = None, *, level: float = 0.95
    ) -> None:
        """Write contingency tables with standard errors to a CSV, Parquet, Arrow or JSON file.

        Args:
            path: Where to; `margrave.read_tables` reads it.
            cliques: Columns of each table; every table that was measured by default.
            level: Of the confidence limits.
        """
        from margrave.tables.estimates import estimates, released
        from margrave.tables.files import write_tables

        chosen = released(self.release) if cliques is None else estimates(self.release, self.model, cliques)
        write_tables(chosen, self.schema, path, guarantee=self.guarantee, level=level)

    def sample(
        self,
        rows: int | None = None,
        *,
        given: Mapping[str, Any] | Any = None,
        rng: Rng = None,
        max_seconds: float | None = None,
        on_step: OnStep = silent,
    ) -> Any:
        """Synthetic rows, in the kind of table that went in, with its column names, order and types.

        Args:
            rows: How many; as many as the model stands for by default, or as the given table has.
            given: Values to condition on exactly: one for all rows, by column, None meaning missing; or a
                table (pandas, polars, Arrow, a file) of some of the columns, one row for each row to draw,
                whose order is kept. The given columns hold these very values.
            rng: A NumPy generator or a seed; fresh by default. Not the noise: sampling is free.
            max_seconds: After this many, rows are left as they were drawn: all that were asked for, but no
                longer moved towards the model's pairs. `on_step` is told.
            on_step: Told that rows are drawn, and again at least every two seconds while that goes on.

        Raises:
            InputError: rows is negative or not that of the given table, a column is unknown, a given value is
                outside its column, or no row that obeys the schema's rules has the given values.

        Example:
            ``synthesis.sample(1000, given={"sex": "Female", "age": 40})``
            ``synthesis.sample(given=frame[["sex", "age"]])``
        """
        return self._table(
            Frame(self.release.frame, self.release.dtypes), rows, given, rng, on_step, max_seconds
        )

    def sample_arrow(
        self,
        rows: int | None = None,
        *,
        given: Mapping[str, Any] | Any = None,
        rng: Rng = None,
        max_seconds: float | None = None,
        on_step: OnStep = silent,
    ) -> pa.Table:
        """As `sample`, as an Arrow table whatever went in: what is written to files."""
        same = self.release.frame == "arrow"
        frame = Frame("arrow", self.release.dtypes if same else {})
        return self._table(frame, rows, given, rng, on_step, max_seconds)

    def encoded(
        self, rows: int | None = None, *, given: Mapping[str, Any] | Any = None, rng: Rng = None
    ) -> Encoded:
        """Synthetic rows as integer codes; as `sample` otherwise."""
        return self._drawn(rows, self._given(given), np.random.default_rng(rng))

    def _given(self, given: Any) -> Given:
        from margrave.engines.frames import read_table
        from margrave.schema.given import given_values

        if given is None or isinstance(given, Mapping):
            return given_values(self.schema, given)
        text = self.release.text
        text = text.with_separator(given) if isinstance(given, (str, Path)) else text
        return given_values(self.schema, read_table(given, text=text)[0])

    def _drawn(
        self,
        rows: int | None,
        given: Given,
        rng: np.random.Generator,
        deadline: Deadline | None = None,
    ) -> Encoded:
        from margrave.models.ruled import agreeing

        count = rows if rows is not None else self.rows if given.rows is None else given.rows
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise InputError(invalid("rows", "a whole number, not negative", "Try rows=1000.", got=rows))
        if given.rows is not None and count != given.rows:
            remedy = "Leave rows out."
            raise InputError(invalid("rows", f"the {given.rows} of the given table", remedy, got=rows))
        return agreeing(self.model, int(count), rng, given.codes, given.spread(int(count)), deadline)

    def save(self, path: str | Path) -> None:
        """Write the release file: versioned JSON and arrays, no pickle; `load` reads it."""
        from margrave.archive import save_release

        save_release(self.release, path)

    def report(self, path: str | Path, *, title: str | None = None) -> None:
        """Write the report, one HTML file made from released quantities only."""
        from margrave.files import check_writable, write_text
        from margrave.report.release_page import render

        check_writable(path, "report")
        rows = self.encoded(min(self.rows, REPORT_ROWS), rng=0)
        write_text(path, render(self.release, self.model, synthetic=rows, title=title))

    def _table(
        self,
        frame: Frame,
        rows: int | None,
        given: Any,
        rng: Rng,
        on_step: OnStep,
        max_seconds: float | None,
    ) -> Any:
        from margrave.schema.decode import decode

        generator, asked = np.random.default_rng(rng), self._given(given)
        deadline = Limits(max_seconds=max_seconds).start(Stopwatch())
        with keep_telling(on_step) as tell:
            tell(Step("sample", "rows of the model", 0, 1.0))
            encoded = self._drawn(rows, asked, generator, deadline)
            if deadline is not None and deadline.passed:
                tell(Step("sample", "time is up: rows are left as they were drawn", 0, 1.0))
            tell(Step("sample", f"values of {encoded.rows:,} rows", 0, 1.0))
            return decode(encoded, self.schema, generator, frame, asked.spread(encoded.rows))

    def __repr__(self) -> str:
        return f"Synthesis({self.release.strategy}, {self.release.fitter}, {self.guarantee})"


def load(path: str | Path) -> Synthesis:
    """Read a release file and restore its model, with no optimisation.

    Raises:
        ReleaseError: The file is missing, damaged, or written by a newer version.
    """
    from margrave.archive import load_release
    from margrave.models.table import resolve

    release = load_release(path)
    model = resolve(release.fitter).restore(release.domain, release.measurements, release.state)
    return Synthesis(release, model)
