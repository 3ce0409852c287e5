"""Peers: other libraries, in environments of their own, through adapter scripts. **Not private.**

An adapter is called as `python ADAPTER FOLDER`. The folder holds

    request.json   epsilon, delta, rho (what they are worth as zero-concentrated privacy), rows, seed,
                   sizes (codes of each column, in the table's order), options, packages
    codes.csv      the private rows as codes, one column each

and the adapter leaves there

    rows.csv       synthetic rows as codes, the same columns
    record.json    seconds of fit and sample, imports left out, and versions of the packages
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from margrave.benchmark.methods import MethodEntry
from margrave.benchmark.prepared import Prepared
from margrave.errors import InputError, MargraveError, invalid
from margrave.files import digest
from margrave.schema.encode import encode
from margrave.schema.encoded import Codes, Encoded, code_dtype

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.schema.schema import Schema

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
    from margrave.schema.decode import decode

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
