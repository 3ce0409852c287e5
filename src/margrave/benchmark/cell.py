"""One cell of the grid, run in a process of its own. **Not private.**

Called as `python -m margrave.benchmark.cell FOLDER PARENT`. FOLDER/request.json says what to do.
The process leaves FOLDER/stage, the stage it has come to, and FOLDER/outcome.json, its scores or the reason
why it has none.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from margrave.errors import MargraveError

__all__ = ["main", "run_cell"]

GUARD = 0.5
"""Seconds between two looks at whether the process that started this one is still there."""


def run_cell(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Split, synthesize and score. **Not private.**

    Args:
        request: The entries of method and table, epsilon, delta, repeat, seed, share, metrics and python.
        folder: Where the stage is written and files are exchanged with a peer.

    Returns:
        status "done" with scores, or "error" with a reason that holds no value of the table.
    """
    from margrave.benchmark.datasets import TableEntry
    from margrave.benchmark.methods import MethodEntry

    _reached(folder, "load")
    try:
        table, method = TableEntry.from_json(request["table"]), MethodEntry.from_json(request["method"])
        return {"status": "done", **_scored(request, table, method, folder)}
    except MargraveError as error:
        reason = " ".join(str(error).split())
    except MemoryError:
        reason = "out of memory"
    except Exception as error:  # its message may quote the table
        reason = f"{type(error).__name__}{_place(error)}"
    return {"status": "error", "reason": reason}


def _scored(request: Mapping[str, Any], table: Any, method: Any, folder: Path) -> dict[str, Any]:
    from margrave.benchmark.prepared import prepare, stream
    from margrave.benchmark.synthesizing import made_rows, warm_up
    from margrave.evaluation.scoring import score_metrics
    from margrave.evaluation.task import Task

    seed, repeat = request["seed"], request["repeat"]
    prepared = prepare(table, request["share"], seed)
    if method.kind == "margrave":
        warm_up(method.settings["method"])
    rng = stream(seed, "sample", table.name, method.name, request["epsilon"], repeat)
    _reached(folder, "synthesize")
    used = _cpu()
    made = made_rows(method, prepared, (request["epsilon"], request["delta"]), rng, folder, request["python"])
    used, peak = _cpu() - used, _peak()
    _reached(folder, "score")
    start = time.perf_counter()
    task = Task(
        *(prepared.train_rows, made.rows, prepared.scoring),
        held_out=prepared.held_rows,
        target=prepared.target,
        seed=seed,
    )
    scores = score_metrics(task, request["metrics"])
    return {
        "scores": {one.name: one.value if math.isfinite(one.value) else None for one in scores},
        "notes": {one.name: one.note for one in scores if one.note},
        "seconds": {"fit": made.fit, "sample": made.sample, "score": time.perf_counter() - start},
        "cpu": used,
        "peak": peak,
        "rows": {"train": prepared.train_rows.size, "held_out": prepared.held_rows.size},
        "columns": len(prepared.scoring.names),
        "versions": dict(made.versions),
    }


def _reached(folder: Path, stage: str) -> None:
    (folder / "stage").write_text(stage, encoding="ascii")


def _cpu() -> float:
    """Processor seconds so far, of this process and of those it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak() -> int:
    """Most bytes of memory so far, of this process or of the largest it waited for."""
    unit = 1 if sys.platform == "darwin" else 1024
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return unit * max(resource.getrusage(who).ru_maxrss for who in both)


def _place(error: BaseException) -> str:
    trace = traceback.extract_tb(error.__traceback__)
    return f" at {Path(trace[-1].filename).name}:{trace[-1].lineno}" if trace else ""


def _die_with(parent: int) -> None:
    """End this process and all it started when the one that started it is gone, however that was killed."""

    def guard() -> None:
        while os.getppid() == parent:
            time.sleep(GUARD)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)  # started by hand: the group is not ours

    threading.Thread(target=guard, daemon=True).start()


def main() -> None:
    """Run the cell that a folder describes; its parent is the second argument."""
    folder = Path(sys.argv[1])
    _die_with(int(sys.argv[2]))
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    outcome = run_cell(request, folder)
    (folder / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")


if __name__ == "__main__":
    main()
