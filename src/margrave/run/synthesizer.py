"""Synthesizer: a run from its options to a release; synthesize: one from a table to rows."""

from __future__ import annotations

import dataclasses
import functools
import platform
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from margrave import __version__
from margrave.errors import InputError, hide_sizes, invalid
from margrave.limits import Deadline, Limits, one_blas_thread
from margrave.privacy.ledger.ledger import Keep, Ledger, check_budget
from margrave.privacy.ledger.location import BookAttempt, LedgerLocation
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.progress import OnStep, Step, keep_telling, silent
from margrave.release import Guarantee, Provenance, Release
from margrave.run.buying import Buyer, share_moments
from margrave.run.options import (
    accountant,
    check_deadline,
    check_libraries,
    check_no_oracle,
    check_pricing,
    check_rows,
    check_rows_held,
    check_ruled_kinds,
    check_share,
    check_test_seed,
    check_usual_reading,
    complete_format,
    declare_written,
    declared_schema,
    describe_method,
    describe_origin,
    named_columns,
    set_memory,
    set_target,
    use_estimator,
    use_strategy,
)
from margrave.run.plan import Plan
from margrave.run.public import (
    check_columns,
    check_types,
    choose_recipe,
    complete_schema,
    condition_fitter,
    condition_rows,
    condition_strategy,
    describe_public_table,
    describe_saving,
    digest_public_table,
    encode_public_table,
    hand_reference,
    inform_fitter,
    note_public_table,
    pack_table,
    read_public_table,
)
from margrave.run.resume import check_clockless, check_unfinished, facts
from margrave.run.synthesis import Rng, Synthesis
from margrave.schema.frame import Selection, type_warning
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.measure.curator import Curator
    from margrave.privacy.ledger.book import Book
    from margrave.protocols import Fitter, Model, Source, Strategy
    from margrave.run.epsilon import Risk
    from margrave.schema.frame import Frame

DISCOVERY = Fraction(1, 3)
"""Share of rho that discovery gets when every column has to be discovered."""
SAMPLING = 0.1
"""Share of the time limit that drawing rows has at least."""
PARTITIONS = Fraction(1, 4)
"""Share of delta for finding unknown values, where there are any."""


class Synthesizer:
    """Turns a private table into a private release, under one (epsilon, delta) for everything.

    **Privacy.** What `fit` releases is (epsilon, delta)-differentially private for tables that differ in
    one `unit`, under `adjacency`, discovery of bounds, categories, missing values and the row count
    included. Public are: the column names, their storage types, and what `schema` declares.

    Args:
        method: Name of a method; see `margrave.methods.METHODS`.
        epsilon: Above 0.
        delta: Between 0 and 1, both excluded; far below one over the number of people.
        unit: Whom to protect: a `Unit`, the name of an owner column (one row each), or None for rows.
        adjacency: "add_remove", "replace_one", or with `public` "replace_private".
        public: Names of columns that are public in every row, in their order; see docs/public.md. The rows of
            these columns come back as they are, and what is promised is that the other columns of a unit's
            rows may be replaced. "auto" then asks what "gated" asks, and fits its model or auto's own.
        public_table: Other rows that are public, of another year or place: a table as for `fit`, in memory.
            They sharpen the fit as far as split noise finds that they help ("jam" draws among them); none may
            be a private row. See docs/public.md.
        schema: What is public about the columns: a `Schema`, the path of a schema.json, or None. What it says
            about the owner's column is ignored, since that column is not released.
        outside: What becomes of a value that the schema rules out: "refuse" ends the run with an error, which
            a book does not allow; "absorb" counts it in the nearest bin or as "(other)", see
            `Schema.absorb_outside`.
        select: A strategy object instead of the method's.
        model: A fitter object or its name instead of the method's.
        columns: Names of the columns to release, where not all are; others are as if they were not there.
        drop: Names of columns to leave out, instead. What a schema says of columns left out is ignored.
        target: The column that rows are meant to predict, for methods that make use of it: "auto", "gated",
            "dp_merf", "dpsgd_gan", "pate_gan", "tabddpm", and by rounds "gem", "mwem", "rap", "rap_pp".
        moments: Whether a share of rho buys sums of products of the rows' numbers beside the tables, which
            serve regressions of the target: True is a tenth, a number is the share. None is a twentieth where
            "auto" is told a target. See docs/regression.md.
        missing: Texts that mean a missing value in CSV, TSV and Excel files. Of the owner's column the empty
            cell alone is missing, which ends the run with an error.
        text: How CSV and TSV files are written, if not as usual; synthetic rows are written so again. A book
            takes usual separators, quotes and encodings only.
        engine: "memory" loads a file, "stream" reads it in batches, "auto" streams large files, but for those
            with public columns.
        ledger: Where every spend is written before its noise is drawn: the path of a new file for this run
            alone, or a book that all runs share and that keeps their caps (`Book`, or its path, which
            ends in .book, .db, .sqlite or .sqlite3).
        dataset: With a book: the name of the data set, as its steward gave it.
        analyst: With a book: who asks.
        provenance: What the report says of where the release comes from: the data set's name, who made it.
            What is left out is filled in from the arguments. It is published with the release.
        discovery: Share of rho for discovery if nothing is declared, in [0, 1). With 0 every column has to be
            declared; bounds without bins then mean bins of equal width.
        max_memory: Bytes that fitted models and what works on them may take, the program included and the
            loaded table not; see `margrave.limits.Limits`.
        max_seconds: Seconds of post-processing that `fit` may take before it ends early but complete.
            Reading, discovery, counting and noise are not counted and come on top, since what is asked must
            not depend on how long they take; see `margrave.limits.Limits`.
        on_step: Told about each step.
        not_private_test_seed: **Not private.** Draws the noise from this seed, so that tests of a program get
            the same release twice. Nothing is promised then, and all that is made says so: see
            docs/privacy/noise.md. Only without a ledger.

    Raises:
        InputError: An argument is outside its range.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"a": [0, 1, 1, 0] * 50, "b": [1, 1, 0, 0] * 50})
        >>> synthesis = Synthesizer("mst", epsilon=1.0, schema=Schema.from_sizes({"a": 2, "b": 2})).fit(table)
        >>> synthesis.sample(3).column_names
        ['a', 'b']
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        epsilon: float,
        delta: float = 1e-9,
        unit: Unit | str | None = None,
        adjacency: Adjacency = "add_remove",
        public: Sequence[str] = (),
        public_table: Any = None,
        schema: Schema | str | Path | None = None,
        outside: Literal["refuse", "absorb"] = "refuse",
        select: Strategy | None = None,
        model: Fitter | str | None = None,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        target: str | None = None,
        moments: bool | float | None = None,
        missing: Sequence[str] = ("",),
        text: TextFormat | None = None,
        engine: str = "auto",
        ledger: str | Path | Book | None = None,
        dataset: str | None = None,
        analyst: str | None = None,
        provenance: Provenance | None = None,
        discovery: Fraction | float = DISCOVERY,
        max_memory: int | None = None,
        max_seconds: float | None = None,
        on_step: OnStep = silent,
        not_private_test_seed: int | None = None,
    ) -> None:
        given = locals()
        self._params = {name: given[name] for name in parameters_of(type(self))}
        check_budget(epsilon, delta)
        recipe = choose_recipe(method, public)
        self.epsilon, self.delta = float(epsilon), float(delta)
        whom = unit if isinstance(unit, Unit) else Unit(unit)
        self.neighbours = Neighbours(whom, adjacency, tuple(public))
        self.selection = Selection(columns, drop)
        self.selection.check_owner(whom.owner)
        self.schema = declared_schema(schema, outside, whom.owner, self.selection, public)
        self._given_schema, self.provenance = schema, provenance or Provenance()
        self.limits = Limits(max_memory, max_seconds)
        self.strategy = check_deadline(
            recipe.strategy() if select is None else use_strategy(select), self.limits
        )
        self.fitter = set_memory(use_estimator(recipe.fitter if model is None else model), self.limits)
        self.method = describe_method(recipe.name, (select, model), self.strategy, self.fitter)
        if target is not None:
            self.strategy, self.fitter = set_target(self.strategy, self.fitter, target)
            self.selection.check_used("target", [target])
        self._take_public(public_table)
        self.target, self.missing, self.engine = target, tuple(missing), engine
        self.moment_share = share_moments(moments, target, self.neighbours, self.strategy)
        self.text, self.schema = declare_written(complete_format(text, self.schema, whom.owner), self.schema)
        self.location = LedgerLocation(ledger, dataset, analyst)
        self.test_seed = check_test_seed(not_private_test_seed, self.location)
        self.discovery, self.on_step = check_share(discovery), on_step
        self._ledger: Ledger | None = None
        self._deadline: Deadline | None = None

    def _take_public(self, public_table: Any) -> None:
        """Tell strategy and fitter what is public, and check that no column named to them is left out."""
        public = self.neighbours.public
        self.strategy = condition_strategy(self.strategy, public)
        self.fitter = inform_fitter(self.strategy, self.fitter, public_table, public)
        self.public_table = public_table
        self.selection.check_used("public", public)
        self.selection.check_used("select", named_columns(self.strategy, self.fitter))

    @hide_sizes
    @one_blas_thread()
    def fit(self, data: Any, *, resume: bool | int = False) -> Synthesis:
        """Spend the whole budget on a table and return the release with its fitted model.

        Args:
            data: A pandas or polars frame, an Arrow table, an ibis table, the path of a CSV, TSV, Parquet or
                Arrow file, a folder of Parquet files, or `people.duckdb::adults`, a DuckDB table.
            resume: Go on with the run that was stopped, from its ledger: same table, same arguments. What was
                released is not paid for again. A number is the run's, where a book has several alike.

        Raises:
            InputError: The table, the schema or the ledger path cannot be used; or the run needs more memory
                or time than there is, which is found before anything is spent.
            BudgetError: A spend would pass the budget; nothing was released by it.
            MissingExtraError: A library of the method is not installed; neither table nor ledger was opened.
            MemoryError: The machine has too little; the error names no size.

        Warns:
            PlanWarning: It takes very long, its time limit leaves the model no step, or a run in the book
                that was begun alike might be resumed; nothing is spent yet.
        """
        from margrave.run.planning import check_costs, choose_fineness

        check_libraries(self.fitter)
        check_pricing(self.strategy, self.fitter, self.neighbours)
        self._check_questions()
        origin = describe_origin(self.provenance, data, self._given_schema, self.location.dataset)
        with self.location.attempt() as attempt, keep_telling(self.on_step) as tell:
            tell(Step("read", "the table"))
            head, _ = self._head(data)
            declared = self._declare_columns(head)
            check_costs(self, declared, resumed=resume is not False)
            elsewhere = read_public_table(self.public_table, declared.names, self._reading)
            asked = digest_public_table(elsewhere)
            with self._reserve(head, declared, resume, attempt, **asked) as ledger:
                curator, frame = self._door(data, declared, ledger)
                part = curator.read_public()
                known = complete_schema(part, self.schema)
                rho = ledger.total * self.discovery_share(declared)
                named, bins = named_columns(self.strategy, self.fitter), choose_fineness(self, declared)
                schema = curator.discover(
                    known, rho, tell, named.union(self.neighbours.public), most_bins=bins
                )
                self._deadline = self.limits.start(curator.stopwatch)
                fitter = condition_fitter(self.fitter, part, schema)
                reference = encode_public_table(elsewhere, schema)
                strategy, fitter = hand_reference(
                    condition_rows(self.strategy, part, schema), fitter, reference
                )
                buyer = Buyer(
                    curator, ledger, schema, self.target or "", strategy, fitter, tell, self._deadline
                )
                model, fitter, sums = buyer.buy(self.moment_share)
                release = self._release(schema, curator, ledger, (model, fitter), frame, declared)
        self.on_step(Step("fit", "done", 0, 1.0))
        notes = {**release.notes, **note_public_table(reference)}
        release = dataclasses.replace(release, public=pack_table(part), notes=notes, sums=sums)
        origin = dataclasses.replace(origin, history=self.location.describe_dataset(attempt, self.neighbours))
        return Synthesis(dataclasses.replace(release, provenance=origin), model, fitter)

    def _release(
        self,
        schema: Schema,
        curator: Curator,
        ledger: Ledger,
        fitted: tuple[Model, Fitter],
        frame: Frame,
        declared: Schema,
    ) -> Release:
        from margrave.tables.classes import add_classes

        model, fitter = fitted
        return Release(
            schema=add_classes(schema, curator.measurements, self.neighbours.public),
            measurements=curator.measurements,
            guarantee=self.promise(ledger),
            events=ledger.events,
            strategy=self.strategy.name,
            fitter=fitter.name,
            state=model.state(),
            total=model.total,
            frame=frame.kind,
            dtypes={name: frame.dtypes[name] for name in schema.names},
            notes={"margrave": __version__, "python": platform.python_version(), "method": self.method},
            declared=tuple(column.name for column in declared.columns if not column.open),
            text=frame.text,
            rules_left_out=tuple(rule for rule in declared.rules if rule not in schema.rules),
        )

    def plan(
        self,
        data: Any,
        *,
        rows: int | None = None,
        error: float | None = None,
        risk: Risk | str | None = None,
    ) -> Plan:
        """What `fit` would do, from column names and storage types alone; nothing is spent.

        No row is read. Without `rows`, time and memory of a file are guessed from its size, which whoever
        runs this sees; no release depends on it.

        Args:
            data: As for `fit`; only its column names and storage types are used.
            rows: A public guess of the row count, for the expected error, the time and the memory.
            error: Plan with the least epsilon at which the line "error" of tables of two columns is at most
                this, instead of the synthesizer's own; it takes `rows`. See `margrave.run.epsilon`.
            risk: Plan with the largest epsilon, or with `error` one no larger, at which an attack finds at
                most so many of those in the table at a share of false alarms: "10% at 1%".

        Raises:
            InputError: As `fit`, as far as arguments, names and storage types tell; or no epsilon will do.
        """
        source, frame = self._head(data)
        if rows is not None and rows < 1:
            raise InputError(invalid("rows", "at least 1", "Give a public guess.", got=rows))
        from margrave.engines.opening import file_bytes
        from margrave.run.epsilon import find_epsilon
        from margrave.run.planning import outlook

        declared, run, need = self._declare_columns(source), self, ""  # refuses what `fit` would refuse
        if error is not None or risk is not None:
            run, need = find_epsilon(self, declared, rows, error, risk)
        names = [column.name for column in source.columns if column.name != self.neighbours.unit.owner]
        found = outlook(run, source, rows, file_bytes(data)).add_warning(type_warning(frame.kind))
        found = dataclasses.replace(found, need=need)
        found = found.add_warning(describe_public_table(self.public_table))
        return found.add_warning(describe_saving(names, self.neighbours.public))

    def _head(self, data: Any) -> tuple[Source, Frame]:
        """Names and storage types of the table, checked; its rows are not read."""
        from margrave.engines.opening import open_head

        source, frame = self._check_owner(*open_head(data, **self._reading))
        check_types(frame, self.neighbours.public)
        return source, frame

    def _open(self, data: Any) -> tuple[Source, Frame]:
        from margrave.engines.opening import open_source

        return self._check_owner(*open_source(data, **self._reading))

    @property
    def _reading(self) -> dict[str, Any]:
        """How the table is read, and which of its columns."""
        owner = self.neighbours.unit.owner
        choose = functools.partial(self.selection.choose, owner=owner)
        reading = {"missing": self.missing, "text": self.text, "engine": self.engine, "choose": choose}
        public = bool(self.neighbours.public)  # their rows are handed out, by memory alone
        return reading | {
            "fixed_rows": self.neighbours.rows_are_public,
            "in_memory": public,
            "owner": owner,
        }

    def _check_questions(self) -> None:
        """Refuse, from the arguments alone, what would ask about the rows at will in a book."""
        check_no_oracle(self.schema, self.location)
        check_usual_reading(self.text, self.location)

    def _check_owner(self, source: Source, frame: Frame) -> tuple[Source, Frame]:
        names, owner = [column.name for column in source.columns], self.neighbours.unit.owner
        if owner is not None and owner not in names:
            raise InputError(invalid("owner", f"one of {names}", "Check the spelling.", got=owner))
        check_columns(self.neighbours.public, names)
        if self.target is not None and self.target not in set(names) - {owner}:
            raise InputError(invalid("target", f"one of {names}", "Check the spelling.", got=self.target))
        unknown = [name for name in self.text.columns if not (name in names or self.text.is_text(name))]
        if unknown:
            raise InputError(
                invalid("format", f"of columns among {names}", "Check the spelling.", got=unknown)
            )
        if names == [owner]:
            raise InputError(invalid("owner", "beside another column", "Keep one to release.", got=owner))
        return check_rows_held(source, self.strategy), frame

    def _reserve(
        self, head: Source, declared: Schema, resume: bool | int, attempt: BookAttempt | None, **asked: str
    ) -> Ledger:
        """The run's ledger, opened before the table is, from what is public; `asked` are more such facts.

        Whether a book lists a run then follows from nothing in the rows: an error that does ends a run that
        is there already. Leaving the ledger's block by an error gives a file back; a reservation in a book
        stays, since a later run that is let in would tell of it.
        """
        if resume is not False:
            check_clockless(self)
        keep = self.location.keep(facts(self, head.columns, declared) | asked, resume, attempt)
        ledger = self.new_ledger(self.searches(declared), keep)
        try:
            check_unfinished(ledger)
        except InputError as error:
            ledger.discard(error)
            raise
        return ledger

    def _door(self, data: Any, declared: Schema, ledger: Ledger) -> tuple[Curator, Frame]:
        """The curator of a table that is opened now, and what is public about how it is stored."""
        from margrave.measure.curator import Curator

        source, frame = self._open(data)
        if not self.location.in_book:
            check_rows(source, declared)
        curator, self._ledger = Curator(source, ledger), ledger
        return curator, frame

    @property
    def sampling_seconds(self) -> float | None:
        """What is left of the time limit for drawing rows, a tenth of it at least; None without one."""
        if self.limits.max_seconds is None or self._deadline is None:
            return self.limits.max_seconds
        return max(self._deadline.left, SAMPLING * self.limits.max_seconds)

    def forget(self) -> None:
        """Drop the answers that the last run's ledger keeps for resuming it: the release has been saved."""
        if self._ledger is not None:
            self._ledger.forget()

    def _declare_columns(self, source: Source) -> Schema:
        """The columns to release, with what is declared about them.

        Raises:
            SchemaError: The schema is about other columns, or a rule about one of unknown kind.
        """
        from margrave.measure.discovery.discover import declare

        owner = self.neighbours.unit.owner
        declared = declare(tuple(c for c in source.columns if c.name != owner), self.schema)
        check_ruled_kinds(declared)
        return declared

    def searches(self, schema: Schema) -> bool:
        """Whether discovery may have to look for unknown values of private columns."""
        from margrave.measure.discovery.discover import searches_values

        return searches_values(schema, self.neighbours.public)

    def new_ledger(self, searches: bool, keep: Keep | None = None) -> Ledger:
        """A ledger of this run's budget.

        Args:
            searches: Whether unknown values are to be searched for, which reserves a share of delta.
            keep: Opens the journal it is kept in; None for one in memory.

        Raises:
            InputError: The journal cannot be opened.
        """
        return Ledger(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            accountant=accountant(self.strategy, self.fitter, self.epsilon, self.delta, self.neighbours),
            partition_delta=Fraction(self.delta) * PARTITIONS if searches else Fraction(0),
            keep=keep,
            test_seed=self.test_seed,
        )

    def discovery_share(self, schema: Schema) -> Fraction:
        """The share of rho for discovery: all of it where nothing is known, less the less is left open."""
        from margrave.measure.discovery.discover import open_part

        public = self.neighbours.public  # read exactly, for nothing
        left = [column for column in schema.attributes if column.name not in public]
        return self.discovery * open_part(left, len(schema.attributes))

    def promise(self, ledger: Ledger) -> Guarantee:
        """What a release under this ledger promises."""
        return Guarantee.of(ledger)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments it was made with, defaults included, by name, as scikit-learn has it.

        Args:
            deep: Of no meaning: no argument has parameters of its own.

        Example:
            >>> Synthesizer("mst", epsilon=1.0).get_params()["epsilon"]
            1.0
        """
        return dict(self._params)

    def set_params(self, **params: Any) -> Synthesizer:
        """Change arguments; returns the same object, which has then forgotten its last run.

        Raises:
            InputError: There is no such argument, or it is outside its range; then nothing is changed.

        Example:
            >>> Synthesizer("mst", epsilon=1.0).set_params(epsilon=2.0).epsilon
            2.0
        """
        unknown = sorted(set(params) - set(self._params))
        if unknown:
            known = f"among {sorted(self._params)}"
            raise InputError(invalid("params", known, "Check the spelling.", got=unknown))
        fresh = type(self)(**{**self._params, **params})
        self.__dict__ = fresh.__dict__
        return self

    def clone(self) -> Synthesizer:
        """A synthesizer with the same arguments that has not run."""
        return type(self)(**self._params)

    def __sklearn_clone__(self) -> Synthesizer:
        """What `sklearn.base.clone` makes of it."""
        return self.clone()

    def __repr__(self) -> str:
        seed = "" if self.test_seed is None else f", NOT PRIVATE: not_private_test_seed={self.test_seed}"
        return f"Synthesizer({self.method!r}, epsilon={self.epsilon:g}, delta={self.delta:g}{seed})"


def synthesize(data: Any, *, epsilon: float, rows: int | None = None, rng: Rng = None, **options: Any) -> Any:
    """Synthetic rows from a private table, in one call.

    Args:
        data: As for `Synthesizer.fit`.
        epsilon: Above 0.
        rows: How many rows; the noisy row count by default.
        rng: A generator or seed for sampling, which is post-processing; that of the noise where it has one.
        options: What else `Synthesizer` takes.

    Returns:
        A table of the kind that went in.
    """
    run = Synthesizer(epsilon=epsilon, **options)
    synthesis = run.fit(data)
    rng = run.test_seed if rng is None else rng
    return synthesis.sample(rows, rng=rng, max_seconds=run.sampling_seconds, on_step=run.on_step)


def parameters_of(kind: type) -> tuple[str, ...]:
    """Names of the arguments that a class is made with, in order."""
    code = kind.__init__.__code__  # type: ignore[misc]
    return tuple(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])
