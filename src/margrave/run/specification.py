"""Specification: one file that says all of a release, and `make_release`, which carries it out.

    [data]         the table, how it is written, its schema, whom to protect
    [privacy]      epsilon, delta, adjacency, the ledger or book
    [method]       name, target, limits
    [outputs]      files to write: rows, release, report, tables
    [checks]       what the release has to reach, by released quantities alone
    [comparison]   real against synthetic rows. **Not private**, and has to say so

Paths are relative to the folder of the file. An entry that is not known is refused, so that a misspelt one is
not taken for one that was left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from margrave.errors import InputError, invalid
from margrave.progress import OnStep, silent

if TYPE_CHECKING:
    from margrave.run.synthesis import Synthesis
    from margrave.run.synthesizer import Synthesizer

ENTRIES: dict[str, dict[str, type]] = {
    "data": {
        "table": str,
        "schema": str,
        "outside": str,
        "owner": str,
        "max_rows": int,
        "missing": list,
        "columns": list,
        "drop": list,
        "engine": str,
        "text": dict,
    },
    "privacy": {
        "epsilon": float,
        "delta": float,
        "adjacency": str,
        "ledger": str,
        "dataset": str,
        "analyst": str,
    },
    "method": {
        "name": str,
        "target": str,
        "moments": bool,
        "moments_share": float,
        "max_memory": str,
        "max_seconds": float,
    },
    "outputs": {"rows": str, "release": str, "report": str, "tables": str, "count": int, "seed": int},
    "checks": {"usable_tables": float, "fitted_tables": float, "rows": int, "other": float},
    "comparison": {"not_private": bool, "page": str, "at_most": dict, "at_least": dict},
}
"""The sections of a file, and the type of each of their entries."""
TEXT: dict[str, type] = {
    "locale": str,
    "separator": str,
    "quote": str,
    "encoding": str,
    "header": bool,
    "names": list,
    "decimal": str,
    "thousands": str,
    "dates": str,
    "columns": dict,
}
"""Entries of `text` in [data]: the arguments of `TextFormat`, and a locale."""
ALWAYS_SCORED = ("tv_1_mean", "tv_2_mean", "tv_3_mean", "association_mean")
"""Scores of every comparison, beside those of `METRICS`."""
MAX_USABLE_NOISE = 0.1
"""A measured table counts as usable if its noise moves it by at most this, in total variation."""


@dataclass(frozen=True, slots=True)
class Specification:
    """All that is to be said of a release.

    Args:
        folder: The folder that paths are relative to.
        data, privacy, method, outputs, checks, comparison: The sections; see the head of the module.

    Raises:
        InputError: An entry is unknown, missing, of the wrong type or out of range.
    """

    folder: Path
    data: Mapping[str, Any]
    privacy: Mapping[str, Any]
    outputs: Mapping[str, Any]
    method: Mapping[str, Any] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for section, entry in (("data", "table"), ("privacy", "epsilon"), ("outputs", "rows")):
            if entry not in getattr(self, section):
                raise InputError(invalid(f"{entry} of [{section}]", "given", "Add it to the file."))
        for name, value in self.checks.items():
            if name != "rows" and not 0 <= value <= 1:
                raise InputError(
                    invalid(f"{name} of [checks]", "a share from 0 to 1", "Correct it.", got=value)
                )
        if self.comparison and self.comparison.get("not_private") is not True:
            remedy = (
                "Its scores, and whether they pass, are read off the private rows and covered by no epsilon: "
                "write not_private = true to say that nobody else will see them, or leave the section out."
            )
            raise InputError(invalid("[comparison]", "marked as not private", remedy))

    def path(self, section: str, entry: str) -> Path | None:
        """The path that an entry names; None where it is left out."""
        found = getattr(self, section).get(entry)
        return None if found is None else self.folder / found

    @property
    def ledger(self) -> Path:
        """The ledger or book; a file beside the rows where none is named."""
        named = self.path("privacy", "ledger")
        rows = self.folder / self.outputs["rows"]
        return rows.with_name(rows.name + ".ledger.jsonl") if named is None else named

    @property
    def written(self) -> dict[str, Path]:
        """The files that a run writes, by entry, without the ledger."""
        found = {name: self.path("outputs", name) for name in ("rows", "release", "report", "tables")}
        found["comparison"] = self.path("comparison", "page")
        return {name: path for name, path in found.items() if path is not None}

    @property
    def missing(self) -> list[str]:
        """Texts that mean a missing value; an empty field always does."""
        return list(dict.fromkeys([*map(str, self.data.get("missing", ())), ""]))

    def synthesizer(self, on_step: OnStep = silent) -> Synthesizer:
        """The synthesizer of the run.

        Raises:
            InputError: An argument is out of its range.
        """
        from margrave.limits import bytes_of
        from margrave.privacy.unit import Unit
        from margrave.run.synthesizer import Synthesizer

        data, privacy, method = self.data, self.privacy, self.method
        memory = method.get("max_memory")
        options: dict[str, Any] = {name: privacy[name] for name in ("dataset", "analyst") if name in privacy}
        options |= {name: privacy[name] for name in ("delta", "adjacency") if name in privacy}
        options |= {name: data[name] for name in ("outside", "engine", "columns", "drop") if name in data}
        return Synthesizer(
            method.get("name", "auto"),
            epsilon=privacy["epsilon"],
            unit=Unit(data.get("owner"), data.get("max_rows", 1)),
            schema=self.path("data", "schema"),
            target=method.get("target"),
            moments=method.get("moments_share", method.get("moments")),
            missing=self.missing,
            text=self._text(),
            ledger=self.ledger,
            max_memory=None if memory is None else bytes_of(memory),
            max_seconds=method.get("max_seconds"),
            on_step=on_step,
            **options,
        )

    def _text(self) -> Any:
        from margrave.schema.storage.text import TextFormat

        said = dict(self.data.get("text", {}))
        locale = said.pop("locale", None)
        if "names" in said:
            said = {"header": False, **said, "names": tuple(said["names"])}
        return TextFormat(**said) if locale is None else TextFormat.for_locale(locale, **said)


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement and whether a release meets it.

    Args:
        name: What is looked at.
        value: What it is.
        bound: What it has to be.
        at_least: Whether it has to be so much at least, or at most.
        private: Whether it was read off private rows, so that nobody else may see it.
    """

    name: str
    value: float
    bound: float
    at_least: bool
    private: bool = False

    @property
    def met(self) -> bool:
        """Whether it is; a value that is not defined meets nothing."""
        return bool(self.value >= self.bound if self.at_least else self.value <= self.bound)

    def __str__(self) -> str:
        word = "at least" if self.at_least else "at most"
        warning = " NOT PRIVATE" if self.private else ""
        state = "met" if self.met else "NOT MET"
        return f"{state}: {self.name} {self.value:.6g}, {word} {self.bound:.6g}{warning}"


@dataclass(frozen=True, slots=True)
class Made:
    """What a specification led to.

    Args:
        synthesis: The release with its model.
        checks: The requirements.
        files: What was written, by entry.
    """

    synthesis: Synthesis
    checks: tuple[Check, ...]
    files: Mapping[str, Path]

    @property
    def met(self) -> bool:
        """Whether all requirements are."""
        return all(check.met for check in self.checks)


def read_specification(path: str | Path) -> Specification:
    """The specification that a TOML or JSON file holds.

    Raises:
        InputError: It cannot be read, or says something that cannot be done.
        MissingExtraError: A TOML file, under Python 3.10 without tomli.
    """
    from margrave.files import check_entries, read_spec

    place = Path(path)
    document = check_entries(read_spec(place, "spec"), dict.fromkeys(ENTRIES, dict), "spec")
    sections = {name: check_entries(part, ENTRIES[name], f"[{name}]") for name, part in document.items()}
    data = sections.setdefault("data", {})
    sections.setdefault("privacy", {})
    sections.setdefault("outputs", {})
    if "text" in data:
        data["text"] = check_entries(data["text"], TEXT, "text of [data]")
    comparison = sections.get("comparison", {})
    for name in ("at_most", "at_least"):
        if name in comparison:
            kinds = dict.fromkeys(comparison[name], float)
            comparison[name] = check_entries(comparison[name], kinds, f"{name} of [comparison]")
    return Specification(place.parent, **sections)


def make_release(
    specification: Specification,
    *,
    usable: float | None = None,
    resume: bool = False,
    force: bool = False,
    on_step: OnStep = silent,
) -> Made:
    """Spend the budget, write all files, and look whether the release meets its requirements.

    Args:
        specification: What is to be done.
        usable: Least share of usable tables, over what [checks] says.
        resume: Go on with the run that was stopped.
        force: Whether to write over files that are there; a ledger never is.
        on_step: Told about each step.

    Raises:
        InputError: A file is there or cannot be written, or the run cannot be made; see `Synthesizer.fit`.
    """
    from margrave.files import check_outputs, suffix_of, write_table

    checks = dict(specification.checks) | ({} if usable is None else {"usable_tables": usable})
    if usable is not None and not 0 <= usable <= 1:
        raise InputError(invalid("fail_under", "a share from 0 to 1", "Try 0.8.", got=usable))
    files, outputs = specification.written, specification.outputs
    suffix_of(files["rows"], "rows")
    inputs = {name: specification.path("data", name) for name in ("table", "schema")}
    check_outputs({**files, "ledger": specification.ledger}, inputs)
    check_outputs(files, inputs, new=not (force or resume))
    _check_scores(specification)
    synthesizer = specification.synthesizer(on_step)
    synthesis = synthesizer.fit(str(specification.folder / specification.data["table"]), resume=resume)
    if "release" in files:
        synthesis.save(files["release"])
    drawn = synthesis.sample_arrow(outputs.get("count"), rng=outputs.get("seed"))
    write_table(drawn, files["rows"], specification.missing[0], synthesis.release.text)
    if "report" in files:
        synthesis.report(files["report"])
    if "tables" in files:
        synthesis.write_tables(files["tables"])
    found = check_release(synthesis, checks)
    if specification.comparison:
        found += _compare(specification, synthesis)
    synthesizer.forget()
    return Made(synthesis, found, {**files, "ledger": specification.ledger})


def check_release(synthesis: Synthesis, wanted: Mapping[str, float]) -> tuple[Check, ...]:
    """Whether a release reaches what is wanted of it. Free and private: released quantities alone.

    Args:
        synthesis: The release with its model.
        wanted: Any of "usable_tables" (least share of the measured tables that noise moves by at most 0.1 in
            total variation), "fitted_tables" (least share of them that the model fits within their noise),
            "rows" (least number of rows the model stands for), and "other" (greatest share of "(other)" in
            any column).
    """
    from margrave.report.release.fit import Fitted, Released

    found = []
    if {"usable_tables", "fitted_tables"} & set(wanted):
        released = Released(synthesis.release)
        shares = Fitted(synthesis.model, None).shares(released.cliques) or []
        pairs = zip(released.cliques, shares, strict=True)
        fits = [released.fit(released.estimate_measured(clique), share) for clique, share in pairs]
        usable = [fit.floor <= MAX_USABLE_NOISE for fit in fits]
        within = [fit.within for fit in fits]
        for name, good in (("usable_tables", usable), ("fitted_tables", within)):
            if name in wanted:
                found.append(Check(name, float(np.mean(good)) if good else 0.0, wanted[name], True))
    if "rows" in wanted:
        found.append(Check("rows", synthesis.rows, wanted["rows"], True))
    if "other" in wanted:
        found.append(Check("other", _largest_other(synthesis), wanted["other"], False))
    return tuple(found)


def _largest_other(synthesis: Synthesis) -> float:
    """The greatest share of values that are not listed, over the columns."""
    from margrave.schema.columns import Listed

    shares = [0.0]
    for column in synthesis.schema.attributes:
        if isinstance(column, Listed) and column.other_code is not None:
            table = synthesis.marginal(column.name)
            shares.append(float(table[column.other_code] / max(table.sum(), 1e-12)))
    return max(shares)


def _check_scores(specification: Specification) -> None:
    """Refuse bounds on scores that there are none of, before anything is spent."""
    from margrave.evaluation.metrics.registry import METRICS

    comparison = specification.comparison
    named = {*comparison.get("at_most", {}), *comparison.get("at_least", {})}
    known = {*METRICS, *ALWAYS_SCORED}
    if named - known:
        unknown = sorted(named - known)
        raise InputError(
            invalid("[comparison]", f"about scores among {sorted(known)}", "Check it.", got=unknown)
        )


def _compare(specification: Specification, synthesis: Synthesis) -> tuple[Check, ...]:
    """Requirements on scores of the synthetic rows against the real ones. **Not private.**"""
    from margrave.evaluation.metrics.registry import METRICS
    from margrave.files import write_text
    from margrave.report.comparison.page import render_comparison
    from margrave.run.evaluate import review

    comparison, page = specification.comparison, specification.path("comparison", "page")
    bounds = [(comparison.get("at_most", {}), False), (comparison.get("at_least", {}), True)]
    table, rows = specification.folder / specification.data["table"], specification.written["rows"]
    found = review(
        str(table),
        {rows.stem: str(rows)},
        schema=specification.path("data", "schema"),
        target=specification.method.get("target"),
        missing=specification.missing,
        text=synthesis.release.text,
        metrics=[name for names, _ in bounds for name in names if name in METRICS],
        pictures=page is not None,
    )
    if page is not None:
        write_text(page, render_comparison(found, title=f"{rows.stem} against {table.stem}"))
    scores = {score.name: score.value for score in found.first.scores}
    return tuple(
        Check(name, scores.get(name, float("nan")), float(bound), at_least, private=True)
        for names, at_least in bounds
        for name, bound in names.items()
    )
