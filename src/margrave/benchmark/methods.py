"""Entries for methods: margrave's own, reference rows, a script of yours, another library's.

Another library (a peer) runs in an environment of its own, through an adapter script. **Not private.** An
adapter is called as `python ADAPTER FOLDER`. The folder holds

    request.json   epsilon, delta, rho (what they are worth as zero-concentrated privacy), rows, seed,
                   sizes (codes of each column, in the table's order), options, packages
    codes.csv      the private rows as codes, one column each

and the adapter leaves there

    rows.csv       synthetic rows as codes, the same columns
    record.json    seconds of fit and sample, imports left out, and versions of the packages
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from margrave.benchmark.prepared import Prepared
from margrave.errors import InputError, MargraveError, invalid
from margrave.extensions import find_entry
from margrave.files import SUFFIXES, check_entries, check_name, digest, read_spec
from margrave.methods import METHODS
from margrave.schema.encode import encode
from margrave.schema.encoded import Codes, Encoded, code_dtype

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.schema.schema import Schema


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
    if word in REFERENCES:
        return MethodEntry(word, "reference", REFERENCES[word])
    path = base / word
    if path.suffix == ".py" and path.is_file():
        name = check_name(path.stem, "methods")
        return MethodEntry(name, "script", _read_summary(path), {}, path.resolve())
    if path.suffix in SUFFIXES and path.is_file():
        return _read_method_entry(path)
    # Files come first, since a name that margrave does not have makes it look into installed extensions.
    plain = word.removesuffix("+target")
    method = find_entry(METHODS, plain)
    if method is not None:
        settings = {"method": plain, "target": plain != word, "options": {}}
        return MethodEntry(word, "margrave", method.summary, settings)
    known = f"one of {sorted([*METHODS, *REFERENCES])}, NAME+target, or a .py, .toml or .json file"
    raise InputError(invalid("methods", known, "Check the spelling.", got=word))


def _read_summary(script: Path) -> str:
    """The first line of a script's docstring; nothing of a script that has none or cannot be parsed."""
    try:
        told = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    except (OSError, ValueError, SyntaxError):
        told = None
    return (told or "").partition("\n")[0].strip()


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
    if find_entry(METHODS, method) is None:
        raise InputError(invalid(f"method of {where}", f"one of {sorted(METHODS)}", "Pick one.", got=method))
    return {"method": method, "target": spec.get("target", False), "options": options}


READY = "ready"
"""The file that says an environment is whole: written last."""


def environment(method: MethodEntry, folder: Path) -> Path:
    """The interpreter of a peer's environment, made on first use from its pinned requirements.

    Args:
        method: The peer.
        folder: Where environments lie; made if need be.

    Raises:
        MargraveError: It cannot be made.
    """
    requirements = [str(line) for line in method.settings["requirements"]]
    home = folder / f"{method.name}-{digest([requirements, sys.version_info[:2]])[:8]}"
    python = home / "bin" / "python"
    if (home / READY).exists() and python.exists():
        return python
    home.parent.mkdir(parents=True, exist_ok=True)
    _install([sys.executable, "-m", "venv", "--clear", str(home)], method.name)
    # One after the other: a first line may pin a build that a later line would otherwise replace.
    for line in requirements:
        _install([str(python), "-m", "pip", "install", "--quiet", line], method.name)
    (home / READY).write_text("\n".join(requirements) + "\n", encoding="utf-8")
    return python


def _install(command: Sequence[str], name: str) -> None:
    done = subprocess.run(  # noqa: S603 - what a spec that the user named asks for
        command, capture_output=True, check=False, env=_outside_environment()
    )
    if done.returncode:
        step = "pip install" if "pip" in command else "venv"
        raise MargraveError(
            f"the environment of {name} could not be made: {step} ended with {done.returncode}"
        )


def run_peer(
    method: MethodEntry,
    prepared: Prepared,
    schema: Schema,
    budget: tuple[float, float],
    rng: np.random.Generator,
    folder: Path,
    python: str,
) -> tuple[pa.Table, dict[str, Any]]:
    """A peer's rows, decoded, and what its adapter recorded.

    Raises:
        MargraveError: The adapter failed, or what it left cannot be used.
    """
    from margrave.schema.encode import decode

    codes = encode(prepared.train.select(schema.names), schema)
    _ask(method, codes, budget, int(rng.integers(1 << 31)), folder)
    command = [python, str(method.script), str(folder)]
    # Its output may quote rows: it is read for the kind of an error, and kept nowhere.
    done = subprocess.run(  # noqa: S603 - the adapter that the spec names
        command, capture_output=True, check=False, env=_outside_environment(), cwd=folder
    )
    if done.returncode:
        raise MargraveError(f"the adapter ended with {done.returncode}: {_error_kind(done.stderr)}")
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        record = record | {key: float(record[key]) for key in ("fit", "sample")}
        made = _read_codes(folder / "rows.csv", schema)
    except (OSError, ValueError, KeyError, TypeError):
        record, made = {}, None
    if made is None:
        raise MargraveError("the adapter left no rows of codes with a record of its seconds")
    return decode(made, schema, rng, prepared.frame), record


def _ask(method: MethodEntry, codes: Encoded, budget: tuple[float, float], seed: int, folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    from margrave.privacy.accounting.conversions import zcdp_rho

    names = codes.domain.names
    request = {
        "epsilon": budget[0],
        "delta": budget[1],
        "rho": float(zcdp_rho(*budget)),
        "rows": codes.rows,
        "seed": seed,
        "sizes": dict(zip(names, codes.domain.sizes, strict=True)),
        "options": dict(method.settings["options"]),
        "packages": list(method.settings["packages"]),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    table = pa.table({name: codes.column(name).astype(np.int64) for name in names})
    csv.write_csv(table, folder / "codes.csv")


def _outside_environment() -> dict[str, str]:
    """The environment of another interpreter: nothing of ours on its path."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def _error_kind(output: bytes) -> str:
    """The kind of the last error that a program reported: never its message."""
    found = re.findall(rb"^((?:\w+\.)*\w+(?:Error|Exception|Interrupt))\b", output, flags=re.MULTILINE)
    return found[-1].decode("ascii", "replace") if found else "it did not say why"


def _read_codes(path: Path, schema: Schema) -> Encoded:
    from pyarrow import csv

    table = csv.read_csv(path)
    columns: list[Codes] = []
    for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True):
        values = np.asarray(table.column(name).to_numpy(), dtype=np.int64)
        if values.size and not (values.min() >= 0 and values.max() < size):
            raise InputError(invalid("codes of a peer", "of the domain", "The adapter is wrong."))
        columns.append(values.astype(code_dtype(size)))
    return Encoded(schema.domain, tuple(columns))
