"""Synthesis: a release with its fitted model, from which everything is free."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, NotPrivateWarning, invalid
from margrave.limits import Deadline, Limits, Stopwatch
from margrave.progress import OnStep, Step, keep_telling, silent
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.run.public import attach_columns, give_public, pick_rows, unpack_table
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.protocols import Fitter, Model
    from margrave.report.release.usefulness import Usefulness
    from margrave.schema.encoded import Encoded
    from margrave.schema.given import Given
    from margrave.tables.ratios import GroupEstimates, NumberEstimate, Of

Rng = np.random.Generator | int | None


MARK = "margrave"
"""Under this name the rows of a test run say in their metadata that they are not private."""
REPORT_ROWS = 100_000
"""Most synthetic rows drawn for the pictures of a report."""


class Synthesis:
    """What a run released, ready to be sampled. Using it costs nothing: it is all post-processing.

    Args:
        release: All that left the private side.
        model: The model fitted to it.
        estimator: What fitted it; by default what its name in the release stands for.
    """

    def __init__(self, release: Release, model: Model, estimator: Fitter | None = None) -> None:
        self.release = release
        self.model = model
        self._estimator = estimator
        self._usefulness: Usefulness | None = None

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

        from margrave.tables.estimates import cells_of, estimates

        found = estimates(
            self.release,
            self.model,
            [names],
            source=source,
            replicates=replicates,
            rng=rng,
            estimator=self._estimator,
        )
        return pa.table(cells_of(found[0], self.schema, level))

    @overload
    def mean(self, name: str, *, of: Of = ..., level: float = ...) -> NumberEstimate: ...

    @overload
    def mean(self, name: str, by: str, *, of: Of = ..., level: float = ...) -> GroupEstimates: ...

    def mean(
        self, name: str, by: str | None = None, *, of: Of = "population", level: float = 0.95
    ) -> NumberEstimate | GroupEstimates:
        """The mean of a column of numbers over rows that have one, with an interval from the known noise.

        A number in a bin counts as the mean of the bin's values, by what the release knows of the cells
        inside, or as its middle where it knows nothing. What noise makes of the cells is in the interval, and
        where nobody declared where the numbers end, so are rows far out: it is longer on their side, and has
        no end where noise hides how far out they are. That values lie evenly in a cell is taken for true
        (`bench/runs/packaged_means.py`).

        A column that discovery coded by others (a payment by the charge, a total by its parts) has the mean
        that follows from tables of these. Rows that may break what was found, and those that have a value and
        nothing to code it by, make its interval longer (`margrave.tables.relative_means`).

        Args:
            name: A column of numbers.
            by: A column whose levels are the groups; a mapping of labels to estimates comes back, which has
                `difference(first, second)` as well.
            of: "population": intervals hold sampling and privacy noise; "table": privacy noise alone.
            level: Of the intervals.

        Raises:
            SchemaError: There is no such column.
            InputError: It has no numbers, or no noisy table holds both columns, or by group what it is coded
                by.

        Example:
            ``synthesis.mean("income", by="sex").difference("Male", "Female")``
        """
        from margrave.tables.quantities import estimate_mean

        return estimate_mean(self.release, name, by, of=of, level=level)

    @overload
    def share(self, name: str, value: object, *, of: Of = ..., level: float = ...) -> NumberEstimate: ...

    @overload
    def share(
        self, name: str, value: object, by: str, *, of: Of = ..., level: float = ...
    ) -> GroupEstimates: ...

    def share(
        self, name: str, value: object, by: str | None = None, *, of: Of = "population", level: float = 0.95
    ) -> NumberEstimate | GroupEstimates:
        """The share of rows that hold a value, or the label of a bin, with an interval; as `mean` otherwise.

        Raises:
            SchemaError: There is no such column.
            InputError: The column has no such level, or no noisy table holds both columns.
        """
        from margrave.tables.quantities import estimate_share

        return estimate_share(self.release, name, value, by, of=of, level=level)

    @overload
    def quantile(self, name: str, q: float = ..., *, of: Of = ..., level: float = ...) -> NumberEstimate: ...

    @overload
    def quantile(
        self, name: str, q: float, by: str, *, of: Of = ..., level: float = ...
    ) -> GroupEstimates: ...

    def quantile(
        self, name: str, q: float = 0.5, by: str | None = None, *, of: Of = "population", level: float = 0.95
    ) -> NumberEstimate | GroupEstimates:
        """A quantile of a column of numbers, the median by default, with an interval; as `mean` otherwise.

        The interval is made of whole bins, so it holds the quantile at least as often as it says; so do those
        of differences of groups. Where rows may lie beyond the range of a column and the quantile is so near
        its end that they may decide it, the interval has no end on that side. Of a column that is coded by
        others it is made of the cells that discovery counted; by group, of the bins of the one column that it
        is a line of.

        Raises:
            SchemaError: There is no such column.
            InputError: It has no numbers, q is not between 0 and 1, or no noisy table holds both columns; by
                group, or it is coded by others and is no line of one.
        """
        from margrave.tables.quantities import estimate_quantile

        return estimate_quantile(self.release, name, q, by, of=of, level=level)

    def write_tables(
        self,
        path: str | Path,
        cliques: Sequence[Sequence[str]] | None = None,
        *,
        level: float = 0.95,
        on_refit: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write contingency tables with standard errors to a CSV, Parquet, Arrow or JSON file.

        Args:
            path: Where to; `margrave.read_tables` reads it.
            cliques: Columns of each table; every table that was measured by default.
            level: Of the confidence limits.
            on_refit: Told how many refits of the model are done, and how many there are: tables that were not
                measured take some.
        """
        from margrave.release import check_marked_name
        from margrave.tables.estimates import estimate_released, estimates, ignore_refit
        from margrave.tables.files import write_tables

        if self.guarantee.warning:
            check_marked_name(path, "path")
        if cliques is None:
            chosen = estimate_released(self.release)
        else:
            listen = on_refit or ignore_refit
            estimator = self._estimator
            chosen = estimates(self.release, self.model, cliques, on_refit=listen, estimator=estimator)
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
            given: Values to condition on exactly: one for all rows, by column, None meaning missing; a set or
                list of values of which any will do; a range (`mg.Between`); or a table (pandas, polars,
                Arrow, a file) of some of the columns, one row for each row to draw, whose order is kept. The
                given columns hold these very values, or values in these ranges.
            rng: A NumPy generator or a seed; fresh by default. Not the noise: sampling is free.
            max_seconds: After this many, rows are left as they were drawn: all that were asked for, but no
                longer moved towards the model's pairs. `on_step` is told.
            on_step: Told that rows are drawn, and again at least every two seconds while that goes on.

        Where columns are public, their rows come back as they are, in order, with the others drawn given
        them: those of the table that was fitted, of another one that is `given`, or if `rows` says another
        number, some of them drawn at random.

        Raises:
            InputError: rows is negative or not that of the given table, a column is unknown, a given value is
                outside its column, or no row that obeys the schema's rules has the given values.

        Warns:
            NotPrivateWarning: The noise came from a seed. Arrow tables say so in their metadata, pandas
                frames in `attrs`.

        Example:
            ``synthesis.sample(1000, given={"sex": "Female", "age": 40})``
            ``synthesis.sample(1000, given={"ward": {"surgery", "medicine"}, "age": mg.Between(65, None)})``
            ``synthesis.sample(given=frame[["sex", "age"]])``
        """
        if self.guarantee.warning:
            warnings.warn(self.guarantee.warning, NotPrivateWarning, stacklevel=2)
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
        """As `sample`, as an Arrow table whatever went in: what is written to files. It does not warn."""
        same = self.release.frame == "arrow"
        frame = Frame("arrow", self.release.dtypes if same else {})
        return self._table(frame, rows, given, rng, on_step, max_seconds)

    def encoded(
        self, rows: int | None = None, *, given: Mapping[str, Any] | Any = None, rng: Rng = None
    ) -> Encoded:
        """Synthetic rows as integer codes; as `sample` otherwise."""
        return self._draw_codes(rows, given, np.random.default_rng(rng))[0]

    def _read_given(self, given: Any) -> tuple[Given, Any]:
        """What rows are conditioned on, and a given table's public columns, which come back as they are."""
        from margrave.engines.frames import read_table
        from margrave.schema.given import Given, given_values

        if given is None or isinstance(given, Mapping):
            return given_values(self.schema, given), None
        text = self.release.text
        text = text.with_separator(given) if isinstance(given, (str, Path)) else text
        table, known = read_table(given, text=text)[0], self.guarantee.neighbours.public
        kept = [name for name in table.column_names if name in known]
        own = given_values(self.schema, table.select([n for n in table.column_names if n not in kept]))
        if not kept:
            return own, None
        asked = give_public(table.select(kept), self.schema)
        return Given(
            table.num_rows, {**own.codes, **asked.codes}, {**own.numbers, **asked.numbers}
        ), table.select(kept)

    def _draw_codes(
        self,
        rows: int | None,
        given: Any,
        rng: np.random.Generator,
        deadline: Deadline | None = None,
    ) -> tuple[Encoded, Given, Any]:
        """Rows as codes, the given values with ranges and sets settled for each row, and public columns.

        Public columns are an Arrow table of them, as they are to come back; None where there are none.
        """
        from margrave.models._base.constraints import sample_consistent
        from margrave.models._base.given import draw_choices

        public = None
        if given is None and (table := unpack_table(self.release)) is not None:
            public = pick_rows(table, _checked_count(table.num_rows if rows is None else rows), rng)
            asked = give_public(public, self.schema)
        else:
            asked, public = self._read_given(given)
        count = rows if rows is not None else self.rows if asked.rows is None else asked.rows
        _checked_count(count)
        if asked.rows is not None and count != asked.rows:
            remedy = "Leave rows out."
            raise InputError(invalid("rows", f"the {asked.rows} of the given table", remedy, got=rows))
        asked = draw_choices(self.model, asked, int(count), rng, self.release.dtypes)
        drawn = sample_consistent(
            self.model, int(count), rng, asked.codes, asked.spread(int(count)), deadline
        )
        return drawn, asked, public

    def save(self, path: str | Path) -> None:
        """Write the release file: versioned JSON and arrays, no pickle; `load` reads it."""
        from margrave.archive import save_release

        save_release(self.release, path)

    def usefulness(self) -> Usefulness:
        """What the release may be used for, judged from released quantities alone; the report begins with it.

        Example:
            ``print(synthesis.usefulness())``
        """
        from margrave.report.release.usefulness import judge_release

        if self._usefulness is None:
            self._usefulness = judge_release(self.release, self.model)
        return self._usefulness

    def report(
        self, path: str | Path, *, title: str | None = None, outputs: Sequence[str | Path] = ()
    ) -> None:
        """Write the report, one HTML file made from released quantities only.

        Args:
            path: Where to.
            title: Of the page.
            outputs: Files made from this release, such as the synthetic rows: the report names them with
                their SHA-256. Never the private table.
        """
        from margrave.files import check_writable, hash_file, write_text
        from margrave.report.release.page import render

        check_writable(path, "report")
        rows = self.encoded(min(self.rows, REPORT_ROWS), rng=0)
        hashes = {Path(file).name: hash_file(file) for file in outputs}
        page = render(
            self.release, self.model, synthetic=rows, title=title, outputs=hashes, use=self.usefulness()
        )
        write_text(path, page)

    def _table(
        self,
        frame: Frame,
        rows: int | None,
        given: Any,
        rng: Rng,
        on_step: OnStep,
        max_seconds: float | None,
    ) -> Any:
        from margrave.schema.encode import decode

        generator = np.random.default_rng(rng)
        deadline = Limits(max_seconds=max_seconds).start(Stopwatch())
        with keep_telling(on_step) as tell:
            tell(Step("sample", "rows of the model", 0, 1.0))
            encoded, asked, public = self._draw_codes(rows, given, generator, deadline)
            if deadline is not None and deadline.passed:
                tell(Step("sample", "time is up: rows are left as they were drawn", 0, 1.0))
            tell(Step("sample", f"values of {encoded.rows:,} rows", 0, 1.0))
            known = asked.spread(encoded.rows)
            table = decode(encoded, self.schema, generator, frame, known, frozenset(asked.codes))
            if public is not None:
                dtypes, stored = self.release.dtypes, self.release.frame
                table = attach_columns(table, public, frame.kind, frame.dtypes or dtypes, stored)
        return _mark_table(table, frame.kind, self.guarantee.warning)

    def _repr_html_(self) -> str:
        """What a notebook shows: the guarantee, the size and the columns, from released quantities alone."""
        from margrave.html_card import html_card
        from margrave.schema.describe import describe_column, describe_rule

        release = self.release
        facts = [
            *self.guarantee.facts,
            ("method", release.method),
            ("rows", f"about {self.rows:,}"),
            ("measured", f"{len(release.measurements)} tables"),
            *(("rule left out", describe_rule(rule)) for rule in release.rules_left_out),
            *(("rule not read", describe_rule(rule)) for rule in release.rules_not_read),
        ]
        columns = [(column.name, describe_column(column)) for column in self.schema.columns]
        title = "NOT PRIVATE: Synthesis" if self.guarantee.warning else "Synthesis"
        return html_card(title, facts) + html_card("Columns", columns)

    def __repr__(self) -> str:
        return f"Synthesis({self.release.strategy}, {self.release.fitter}, {self.guarantee})"


def _checked_count(rows: Any) -> int:
    """The number of rows, found to be one.

    Raises:
        InputError: It is none, or negative.
    """
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
        raise InputError(invalid("rows", "a whole number, not negative", "Try rows=1000.", got=rows))
    return int(rows)


def _mark_table(table: Any, kind: str, warning: str) -> Any:
    """A table with what has to be said of it, where its library has a place for that."""
    if warning and kind == "arrow":
        return table.replace_schema_metadata({**(table.schema.metadata or {}), MARK: warning})
    if warning and kind == "pandas":
        table.attrs[MARK] = warning
    return table


def load(path: str | Path, estimator: Fitter | str | None = None) -> Synthesis:
    """Read a release file and restore its model, with no optimisation.

    Args:
        path: The file.
        estimator: What restores the model, where it was made by an estimator that is neither of the package
            nor registered: an object, or its place as "package.module:Class", which is imported. The file
            itself never has anything imported.

    Raises:
        ReleaseError: The file is missing, damaged, or written by a newer version.
        InputError: The estimator is not the one that the file names.
    """
    from margrave.archive import load_release
    from margrave.models.registry import resolve
    from margrave.run.options import use_estimator

    release = load_release(path)
    if estimator is None:
        try:
            chosen = resolve(release.fitter)
        except InputError:
            remedy = (
                "Install the extension that adds it, or pass it: load(path, estimator=...), or "
                "--estimator package.module:Class."
            )
            what = "known here, since it made the model of this release"
            raise InputError(invalid("estimator", what, remedy, got=release.fitter)) from None
    else:
        chosen = use_estimator(estimator)
        if chosen.name != release.fitter:
            what = f"{release.fitter!r}, which made the model of this release"
            raise InputError(invalid("estimator", what, "Pass that one.", got=chosen.name))
    model = chosen.restore(release.domain, release.measurements, release.state)
    return Synthesis(release, model, chosen)
