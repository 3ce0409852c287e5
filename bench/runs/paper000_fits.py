"""Two runs of PrivPGD outside the grid of paper000.py: a protected threshold, and a clock. **Not private.**

Both measure all pairs once, epsilon and delta as the paper has them, under replace_one. The curve of its
figure 3 fits the same release once a strength: what differs along it is the strength alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import margrave as mg
from margrave.benchmark.datasets import table_entry
from margrave.benchmark.prepared import Prepared, prepare
from margrave.benchmark.results import machine_facts
from margrave.errors import InputError, invalid
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.files import write_text
from margrave.models import Particles
from margrave.models.particles import ThresholdProtection

DATA = Path(__file__).resolve().parent.parent / "data"
SHARE, SEED = 0.2, 0
"""Of the rows held out, and of what is drawn, as `margrave bench` has them by default."""
WHOLE, ANSWER, PAIRS = (2.5, 1e-5), (0.5, 2e-6), (2.0, 8e-6)
"""(epsilon, delta): of all, of the protected query's estimate and of the pairs (appendix B; they add up)."""
BINS = 64
"""Cells of [0, 1] in which the rows' part of the smooth answer is counted."""
STEEP = 5.0
ERRORS = ("downstream_error", "counting_queries", "threshold_queries", "average_sw1", "average_tv")
PAPER = {"epochs": 1000, "directions": 10, "batch": 5, "kept": 0.2, "rate": 0.1, "last": 0.0003}
"""The paper's own settings, as far as `Particles` has them; with `projection_steps` of 1,750."""


@dataclasses.dataclass(frozen=True)
class Query:
    """A linear threshold over every column, in the embedding: <z, direction> > offset."""

    direction: dict[str, float]
    offset: float

    def heights(self, rows: Rows) -> NDArray[np.float64]:
        """<z, direction> - offset of each row, shape [rows]."""
        total = np.full(rows.size, -self.offset)
        for name, weight in self.direction.items():
            size = rows.domain[name]
            total += weight * ((np.arange(size) + 0.5) / size)[rows.encoded.column(name)]
        return total


def known(prepared: Prepared) -> mg.Schema:
    """What is public of a table.

    Raises:
        InputError: Its domain is to be discovered.
    """
    if prepared.public is None:
        raise InputError(invalid("tables", "of public domains", "Take another.", got=prepared.entry.name))
    return prepared.public


def drawn_query(prepared: Prepared, seed: int) -> Query:
    """A random direction of length one over all columns, and the middle of the cube: nothing of the rows."""
    names = known(prepared).domain.names
    theta = np.random.default_rng(seed).normal(size=len(names))
    theta /= np.linalg.norm(theta)
    return Query(dict(zip(names, theta.tolist(), strict=True)), float(theta.sum() / 2))


def smooth(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row's part of the smooth answer (appendix B)."""
    return np.asarray(1 / (1 + np.exp(-STEEP * heights)))


def estimated(prepared: Prepared, query: Query) -> float:
    """The smooth answer with noise, paid for with ANSWER.

    The rows' parts are a column of their own, its histogram is measured at the door, and the estimate is the
    mean of the cells' middles: half a cell, 0.008, off at most, and much less where rows spread in a cell.
    """
    parts = smooth(query.heights(_coded(prepared, prepared.train)))
    column = mg.Real(name="part", lower=0.0, upper=1.0, bins=BINS, missing=False)
    release = (
        mg.Synthesizer(
            select=mg.select.Fixed([("part",)]),
            model="independent",
            epsilon=ANSWER[0],
            delta=ANSWER[1],
            adjacency="replace_one",
            schema=mg.Schema((column,)),
        )
        .fit(pa.table({"part": parts}))
        .release
    )
    counts = release.measurements[0].values
    middles = (np.arange(BINS) + 0.5) / BINS
    return float(np.clip(counts @ middles / len(parts), 0.0, 1.0))


def _coded(prepared: Prepared, table: pa.Table) -> Rows:
    from margrave.engines.frames import read_table

    schema = known(prepared)
    return Rows.of(read_table(table)[0].select(schema.domain.names), schema)


def measured(prepared: Prepared, budget: tuple[float, float], fitter: Particles) -> mg.Synthesis:
    """A release of all pairs, and the fitter's model of it."""
    schema = known(prepared)
    pairs = list(itertools.combinations(schema.domain.names, 2))
    return mg.Synthesizer(
        select=mg.select.Fixed(pairs, one_ways=False),
        model=fitter,
        epsilon=budget[0],
        delta=budget[1],
        adjacency="replace_one",
        schema=schema,
    ).fit(prepared.train)


def scored(prepared: Prepared, synthesis: mg.Synthesis, metrics: tuple[str, ...]) -> dict[str, float]:
    """Scores of as many rows as there were."""
    made = synthesis.sample_arrow(prepared.train_rows.size, rng=SEED)
    sides = (prepared.train_rows, prepared.rows_of(made), prepared.scoring)
    task = Task(*sides, held_out=prepared.held_rows, target=prepared.target, seed=SEED)
    return {one.name: one.value for one in score_metrics(task, metrics)}


def _missed(prepared: Prepared, synthesis: mg.Synthesis, query: Query) -> float:
    """The absolute error of the protected query itself, not of its smooth stand-in."""
    made = synthesis.sample_arrow(prepared.train_rows.size, rng=SEED)
    sides = (_coded(prepared, prepared.train), _coded(prepared, made))
    answers = [float((query.heights(rows) > 0).mean()) for rows in sides]
    return abs(answers[0] - answers[1])


def protect(args: argparse.Namespace, tables: Mapping[str, str], out: Path) -> None:
    """The curve of figure 3 on some tables; a table's lines are written when all its strengths are done."""
    for name in args.tables:
        prepared = prepare(table_entry(tables[name], DATA, args.root), SHARE, SEED)
        query = drawn_query(prepared, args.seed)
        estimate, lines = estimated(prepared, query), []
        plain = Particles(particles=args.particles, epochs=args.epochs)
        first = measured(prepared, PAIRS, plain)
        for strength in (0.0, *args.strengths):
            start, made = time.process_time(), first
            if strength:
                kept = ThresholdProtection(query.direction, query.offset, estimate, strength, STEEP)
                fitter = dataclasses.replace(plain, penalty=kept)
                total = float(prepared.train_rows.size)
                model = fitter.fit(first.release.domain, first.release.measurements, total=total)
                made = mg.Synthesis(first.release, model)
            line: dict[str, Any] = {"table": prepared.entry.name, "strength": strength}
            line |= {"cpu_seconds": round(time.process_time() - start, 1)} if strength else {}
            line |= {"protected": _missed(prepared, made, query), **scored(prepared, made, ERRORS)}
            print(json.dumps(line), flush=True)
            lines.append({**line, "particles": args.particles, "epochs": args.epochs, "seed": args.seed})
        _write(out, prepared.entry.name, lines)


def _write(out: Path, table: str, lines: list[dict[str, Any]]) -> None:
    """Put a table's lines in the place of those there are of it."""
    others = [line for line in read_lines(out) if line["table"] != table]
    write_text(out, "".join(json.dumps(line) + "\n" for line in [*others, *lines]))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; none without the file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def clock(args: argparse.Namespace, tables: Mapping[str, str], out: Path) -> None:
    """Seconds from the table to a fitted model of all pairs, in one thread on a processor."""
    prepared = prepare(table_entry(tables[args.table], DATA, args.root), SHARE, SEED)
    settings: dict[str, Any] = PAPER | {"projection_steps": 1750} if args.paper else {"epochs": args.epochs}
    fitter = Particles(particles=args.particles, device=args.device, **settings)
    start, used = time.perf_counter(), time.process_time()
    made = measured(prepared, WHOLE, fitter)
    line = {
        "table": prepared.entry.name,
        "rows": prepared.train_rows.size,
        "pairs": len(made.release.measurements),
        "particles": args.particles,
        **settings,
        "device": args.device or "cpu",
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        **scored(prepared, made, ("average_sw1", "average_tv")),
        "machine": machine_facts(),
    }
    print(json.dumps(line))
    with out.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(line) + "\n")
