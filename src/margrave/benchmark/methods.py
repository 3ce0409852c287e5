"""Entries for methods: margrave's own, reference rows, a script of yours, another library's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from margrave.errors import InputError, invalid
from margrave.files import SUFFIXES, check_entries, check_name, digest, read_spec
from margrave.methods import METHODS

Kind = Literal["margrave", "reference", "script", "peer"]

REFERENCES = {
    "real": "The rows the others learned from, in the synthetic ones' place.",
    "bootstrap": "As many of those rows, drawn with replacement: what is left is sampling error.",
    "shuffled": "Those rows with each column shuffled by itself: all association is gone.",
}
"""Entries that no epsilon changes: what a synthetic table could hardly beat, and what it should beat."""
FIELDS: dict[str, dict[str, type]] = {
    "margrave": {"method": str, "target": bool, "options": dict},
    "peer": {"adapter": str, "requirements": list, "packages": list, "options": dict},
}
SHARED: dict[str, type] = {"kind": str, "name": str, "summary": str}
OPTIONS = ("adjacency", "discovery", "max_memory", "max_seconds", "model")
"""Arguments of `Synthesizer` that a spec may give."""


@dataclass(frozen=True, slots=True)
class MethodEntry:
    """One method of a benchmark.

    Args:
        name: As it is called in results.
        kind: "margrave", "reference", "script" (a Python file with a function `synthesize`) or "peer"
            (another library, through an adapter script in an environment of its own).
        summary: What it is, in a sentence.
        settings: What its kind needs: method, target and options; or requirements, packages and options.
        script: The script or the adapter.
    """

    name: str
    kind: Kind
    summary: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    script: Path | None = None

    @property
    def digest(self) -> str:
        """A fingerprint of all that decides what it does, margrave's own code left out."""
        files = () if self.script is None else (self.script,)
        return digest([self.kind, dict(self.settings)], *files)

    @property
    def epsilon_free(self) -> bool:
        """Whether it spends nothing, so that one epsilon is as good as another."""
        return self.kind == "reference"

    def to_json(self) -> dict[str, Any]:
        """A JSON object, for the process of a cell."""
        script = None if self.script is None else str(self.script)
        return {
            "name": self.name,
            "kind": self.kind,
            "summary": self.summary,
            "settings": dict(self.settings),
            "script": script,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> MethodEntry:
        """The entry of a JSON object made by `to_json`."""
        script = None if said["script"] is None else Path(said["script"])
        return cls(said["name"], said["kind"], said["summary"], said["settings"], script)


def method_entry(word: str, base: Path) -> MethodEntry:
    """The entry that a word stands for.

    Args:
        word: A method of margrave, "auto+target" for one that is told the column to predict, a reference,
            or the path of a Python script, a TOML or a JSON file.
        base: The folder that paths are relative to.

    Raises:
        InputError: There is no such entry, or its file cannot be used.
    """
    plain = word.removesuffix("+target")
    if plain in METHODS:
        settings = {"method": plain, "target": plain != word, "options": {}}
        return MethodEntry(word, "margrave", METHODS[plain].summary, settings)
    if word in REFERENCES:
        return MethodEntry(word, "reference", REFERENCES[word])
    path = base / word
    if path.suffix == ".py" and path.is_file():
        return MethodEntry(check_name(path.stem, "methods"), "script", "", {}, path.resolve())
    if path.suffix in SUFFIXES and path.is_file():
        return _read_method_entry(path)
    known = f"one of {sorted([*METHODS, *REFERENCES])}, NAME+target, or a .py, .toml or .json file"
    raise InputError(invalid("methods", known, "Check the spelling.", got=word))


def _read_method_entry(path: Path) -> MethodEntry:
    spec = read_spec(path, "methods")
    kind = spec.get("kind", "margrave")
    where = f"the method file {path.name}"
    if kind not in FIELDS:
        raise InputError(invalid(f"kind of {where}", f"one of {sorted(FIELDS)}", "Pick one.", got=kind))
    spec = check_entries(spec, SHARED | FIELDS[kind], where)
    name = check_name(spec.get("name", path.stem), f"name of {where}")
    if name in METHODS or name in REFERENCES:
        raise InputError(invalid(f"name of {where}", "one that is not taken", "Pick another.", got=name))
    summary = spec.get("summary", "")
    if kind == "margrave":
        return MethodEntry(name, "margrave", summary, _read_own_method(spec, where))
    if "adapter" not in spec:
        raise InputError(invalid(f"adapter of {where}", "given", "Name the script to run."))
    adapter = (path.parent / spec["adapter"]).resolve()
    if not adapter.is_file():
        raise InputError(invalid(f"adapter of {where}", "a file beside it", "Check it.", got=spec["adapter"]))
    settings = {name: spec.get(name, []) for name in ("requirements", "packages")}
    if not all(isinstance(line, str) for lines in settings.values() for line in lines):
        raise InputError(invalid(f"requirements of {where}", "a list of texts", "Quote each of them."))
    return MethodEntry(name, "peer", summary, settings | {"options": spec.get("options", {})}, adapter)


def _read_own_method(spec: Mapping[str, Any], where: str) -> dict[str, Any]:
    options = dict(spec.get("options", {}))
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise InputError(invalid(f"options of {where}", f"among {list(OPTIONS)}", "Check it.", got=unknown))
    method = spec.get("method", "auto")
    if method not in METHODS:
        raise InputError(invalid(f"method of {where}", f"one of {sorted(METHODS)}", "Pick one.", got=method))
    return {"method": method, "target": spec.get("target", False), "options": options}
