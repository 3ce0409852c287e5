"""Small tables, entries and outcomes that the tests of the benchmark share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HIDDEN = "Rumpelstilzchen"
"""A value of the table that must not turn up anywhere but in the table."""


def write_table(path: Path, rows: int = 120) -> Path:
    """A CSV file with a number, a text column, a label and gaps."""
    rng = np.random.default_rng(3)
    age = rng.integers(18, 80, rows)
    name = rng.choice(["Ä", "b, c", HIDDEN, ""], rows)
    label = np.where(age + rng.integers(-5, 5, rows) > 45, "old", "young")
    lines = [f'{a},"{n}",{x}' for a, n, x in zip(age, name, label, strict=True)]
    path.write_text("age,name,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_script(folder: Path, name: str, body: str) -> str:
    """A method file whose function does `body` before it returns the rows it was given."""
    head = "import os, signal, time\n\ndef synthesize(table, schema, *, epsilon, delta, target, rows, rng):\n"
    path = folder / f"{name}.py"
    path.write_text(f"{head}    {body}\n    return table\n", encoding="utf-8")
    return str(path)


def outcome(data: str, method: str, epsilon: float | None, repeat: int, **more: Any) -> dict[str, Any]:
    """A finished cell as the store keeps it."""
    kind = "reference" if epsilon is None else "margrave"
    sides = {"data": data, "method": method, "epsilon": epsilon, "repeat": repeat, "kind": kind}
    shared = {"status": "done", "delta": 1e-5, "share": 0.2, "seed": 0, "workers": 1, "day": "2026-01-01"}
    seconds = {"fit_seconds": 1.5, "sample_seconds": 0.5, "score_seconds": 0.25, "wall_seconds": 4.0}
    sizes = {
        "synthesis_cpu_seconds": 2.0,
        "synthesis_peak_bytes": 300_000_000,
        "train_rows": 80,
        "held_out_rows": 20,
        "columns": 3,
    }
    facts = {
        "key": f"{data}__{method}__{epsilon}__{repeat}",
        "scores": {"average_tv": 0.25, "fidelity_error": 0.5, "logistic_f1": 0.75},
        "versions": {"margrave": "1", "python": "3.11"},
        "machine": {"cpu": "A & B", "cores": 2, "memory": 8_000_000_000, "system": "Linux x86_64"},
    }
    return sides | shared | seconds | sizes | facts | more
