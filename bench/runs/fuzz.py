"""Malformed files of every kind that margrave reads: no crash without a clear error, no leak in a message.

    python bench/runs/fuzz.py --cases 100000 [--targets csv parquet arrow release ledger book]

A sound file of each kind is made, its private cells all hold a canary. Each case damages a copy: bytes are
flipped, cut out, doubled, moved or replaced by awkward ones, and in JSON files values and keys are exchanged
for awkward ones as well. The file is then read; tables are also profiled and counted, releases sampled.
Allowed are success and an error of margrave's own tree; anything else, a canary in a message, a warning or
standard error, a process that dies, or a case of more than 20 seconds, is a failure and is kept with its
number. Cases run in child processes, so that a crash of a reader is seen.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "fuzz.jsonl"
CANARIES = ("Qz7Canary", "Canary", "424242.5", "424242")
BATCH = 500
SECONDS = 20
AWKWARD = [
    None, True, -1, 0, 1, 2**31, 2**63, -(2**63) - 1, 1e308, -1e308, 0.5, "", "nan", "1e999", "\x00",
    "\ud83d\ude00", "\ud83d",
    [], {}, [None], [[]], {"a": []}, "a" * 5000, "1/0", "0/0", "-1/3", [1, 2, 3], float("inf"), float("nan"),
]  # fmt: skip
BYTES = [
    *(b"\x00", b"\xff", b'"', b",", b"\n", b"\r", b"\t", b"{", b"}", b"[", b"]"),
    *(b"1e999", b"\xef\xbb\xbf", b"\\u"),
]
SUFFIXES = {"ledger": ".jsonl", "release": ".margrave", "schema": ".json", "tables": ".json"}


def rows() -> Any:
    """A small private table whose values are canaries."""
    import pyarrow as pa

    return pa.table(
        {
            "name": [f"Qz7Canary {i % 5}" for i in range(40)],
            "amount": [424242.5 + (i % 7) for i in range(40)],
            "count": [424242 + (i % 3) for i in range(40)],
            "flag": [i % 2 == 0 for i in range(40)],
        }
    )


def sound(kind: str, folder: Path) -> Path:
    """A file of a kind as it should be."""
    import margrave as mg
    from margrave.files import write_table

    table = rows()
    if kind in ("csv", "tsv", "parquet", "arrow"):
        path = folder / f"sound.{kind}"
        write_table(table, path)
        return path
    schema = mg.Schema(
        (
            mg.Categorical(name="name", values=tuple(f"Qz7Canary {i}" for i in range(5)), missing=False),
            mg.Real(name="amount", lower=424242.5, upper=424250, bins=4, missing=True),
            mg.Integer(name="count", lower=424242, upper=424250, bins=3, missing=False),
            mg.Boolean(name="flag", missing=False),
        )
    )
    path = folder / f"sound.{kind}"
    if kind == "schema":
        path.write_text(json.dumps(schema.to_json()))
        return path
    if kind == "book":
        return _book(folder, schema, table)
    ledger = folder / "sound.ledger"
    synthesis = mg.Synthesizer("mst", epsilon=1.0, schema=schema, ledger=ledger).fit(table)
    if kind == "release":
        synthesis.save(path)
    elif kind == "tables":
        path = folder / "sound.json"
        synthesis.write_tables(path)
    else:
        path = ledger
    return path


def _book(folder: Path, schema: Any, table: Any) -> Path:
    """A book with a cap and one run."""
    import margrave as mg

    path = folder / "sound.book"
    book = mg.Book.create(path)
    book.cap("people", 3.0, 1e-6)
    options = {"schema": schema, "outside": "absorb", "ledger": book, "dataset": "people"}
    mg.Synthesizer("independent", epsilon=1.0, **options).fit(table)
    book.close()
    return path


def read(kind: str, path: Path) -> None:
    """Read a file as a user would."""
    import numpy as np

    import margrave as mg
    from margrave.engines.opening import open_source
    from margrave.privacy.ledger.journal import read_ledger

    if kind in ("csv", "tsv", "parquet", "arrow"):
        for engine in ("memory", "stream"):
            source, _ = open_source(path, engine=engine)
            for column in source.columns:
                source.kinds(column.name)
                source.histogram(column.name, np.linspace(0, 1e6, 9))
    elif kind == "schema":
        known = mg.Schema.load(path)
        if known.known:
            source = open_source(rows())[0]
            source.only(known.names).bind(known).count([known.names[:1]])
    elif kind == "release":
        mg.load(path).sample(3, rng=0)
    elif kind == "tables":
        mg.read_tables(path)
    elif kind == "book":
        book = mg.Book(path)
        try:
            book.accounts()
            book.attempts()
            for run in book.runs():
                book.events(run.run)
        finally:
            book.close()
    else:
        read_ledger(path)


def damaged(data: bytes, kind: str, draw: random.Random) -> bytes:
    """A copy with something wrong."""
    if kind in ("schema", "tables", "ledger") and draw.random() < 0.6:
        return _json_damage(data, kind, draw)
    if kind == "release" and draw.random() < 0.6:
        return _zip_damage(data, draw)
    for _ in range(draw.choice([1, 1, 1, 2, 4, 16])):
        data = _byte_damage(data, draw)
    return data


def _byte_damage(data: bytes, draw: random.Random) -> bytes:
    if not data:
        return draw.choice(BYTES)
    a, b = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    b = min(b, a + draw.choice([1, 2, 8, 64, 4096]))
    kind = draw.randrange(7)
    if kind == 0:
        return data[:a]
    if kind == 1:
        return data[:a] + data[b:]
    if kind == 2:
        return data[:b] + data[a:]
    if kind == 3:
        return data[:a] + draw.choice(BYTES) + data[b:]
    if kind == 4:
        return data[:a] + bytes([draw.randrange(256)]) + data[a + 1 :]
    if kind == 5 and a < len(data):
        return data[:a] + bytes([data[a] ^ (1 << draw.randrange(8))]) + data[a + 1 :]
    return data[:a] + draw.randbytes(b - a) + data[b:]


def _json_damage(data: bytes, kind: str, draw: random.Random) -> bytes:
    if kind == "ledger":
        lines = data.split(b"\n")
        place = draw.randrange(max(len(lines) - 1, 1))
        lines[place] = _json_damage(lines[place], "schema", draw)
        return b"\n".join(lines)
    try:
        document = json.loads(data)
    except ValueError:
        return data[: draw.randrange(len(data) + 1)]
    for _ in range(draw.choice([1, 1, 2, 5])):
        _replace_one(document, draw)
    return json.dumps(document).encode()


def _replace_one(document: Any, draw: random.Random) -> None:
    """Exchange one value somewhere inside, or lose or rename its key."""
    inner = [
        (holder, key)
        for holder in _holders(document)
        for key in (list(holder) if isinstance(holder, dict) else range(len(holder)))
    ]
    if not inner:
        return
    holder, key = draw.choice(inner)
    if isinstance(holder, dict) and draw.random() < 0.2:
        value = holder.pop(key)
        if draw.random() < 0.5:
            holder[f"{key}x"] = value
    else:
        holder[key] = copy.deepcopy(draw.choice(AWKWARD))


def _holders(document: Any) -> list[Any]:
    found = [document] if isinstance(document, (dict, list)) and document else []
    for value in document.values() if isinstance(document, dict) else document if found else []:
        if isinstance(value, (dict, list)):
            found += _holders(value)
    return found


def _zip_damage(data: bytes, draw: random.Random) -> bytes:
    """One member of a release file damaged, the archive around it whole."""
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        hit = "release.json" if draw.random() < 0.7 else draw.choice(names)
        for name in names:
            blob = old.read(name)
            if name == hit:
                text = name.endswith(".json")
                blob = _json_damage(blob, "schema", draw) if text else _byte_damage(blob, draw)
            new.writestr(name, blob)
    return out.getvalue()


def outcome(kind: str, path: Path) -> tuple[str, str]:
    """What reading came to: "read", "refused", or what is wrong; and the error's kind."""
    from margrave.errors import MargraveError

    said = io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(said):
        warnings.simplefilter("always")
        try:
            read(kind, path)
            ending, message = ("read", ""), ""
        except MargraveError as error:
            chain: list[str] = []
            link: BaseException | None = error
            while link is not None:
                chain.append(str(link))
                link = link.__cause__ or link.__context__
            ending, message = ("refused", type(error).__name__), " ".join(chain)
        except (Exception, MemoryError) as error:
            ending, message = ("crashed", type(error).__name__), str(error)[:0]
    heard = " ".join([message, said.getvalue(), *(str(one.message) for one in warned)])
    if any(canary in heard for canary in CANARIES) and kind not in ("schema", "release", "tables"):
        return "leaked", ending[1]
    return ending


def inside(kind: str, folder: Path, first: int, count: int, seed: int) -> None:
    """Some cases in this process: prints a line for each failure, and the tally."""
    data = (folder / "whole").read_bytes()
    path = folder / f"case-{first}{SUFFIXES.get(kind, f'.{kind}')}"
    signal.signal(signal.SIGALRM, _slow)
    tally: Counter[str] = Counter()
    for case in range(first, first + count):
        path.write_bytes(damaged(data, kind, random.Random(f"{seed}/{kind}/{case}")))  # noqa: S311
        signal.alarm(SECONDS)
        try:
            what, error = outcome(kind, path)
        except TimeoutError:
            what, error = "slow", ""
        signal.alarm(0)
        tally[what] += 1
        if what not in ("read", "refused"):
            print(json.dumps({"case": case, "what": what, "error": error}), flush=True)
    print(json.dumps({"tally": tally}), flush=True)


def _slow(*_: object) -> None:
    raise TimeoutError


def one(
    kind: str, folder: Path, first: int, count: int, seed: int
) -> tuple[Counter[str], list[dict[str, Any]]]:
    """A batch in a child process."""
    words = [sys.executable, __file__, "--inside", kind, str(folder), str(first), str(count), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    tally = Counter(lines[-1]["tally"]) if lines and "tally" in lines[-1] else Counter({"died": 1})
    faults = [line for line in lines if "case" in line]
    if "died" in tally:
        faults.append({"case": first, "what": "died", "error": str(done.returncode)})
    if any(canary in done.stderr for canary in CANARIES):
        faults.append({"case": first, "what": "leaked", "error": "standard error"})
    return tally, faults


KINDS: tuple[str, ...] = ("csv", "tsv", "parquet", "arrow", "schema", "release", "ledger", "book", "tables")


def main() -> None:
    """Run the cases and write one JSON line a kind."""
    if sys.argv[1:2] == ["--inside"]:
        kind, folder, *numbers = sys.argv[2:]
        inside(kind, Path(folder), *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000, help="of all kinds together")
    parser.add_argument("--targets", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    bad = sum(run(kind, -(-args.cases // len(args.targets)), args.seed, args.out) for kind in args.targets)
    sys.exit(1 if bad else 0)


def run(kind: str, cases: int, seed: int, out: Path, report: Callable[[str], None] = print) -> int:
    """All cases of a kind; the number of failures."""
    start, tally, faults = time.perf_counter(), Counter[str](), []
    for first in range(0, cases, BATCH):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "whole").write_bytes(sound(kind, folder).read_bytes())
            found, wrong = one(kind, folder, first, min(BATCH, cases - first), seed)
        tally.update(found)
        faults += wrong
    import margrave

    line = {
        "kind": kind, "cases": cases, "seed": seed, "tally": dict(tally), "faults": faults[:50],
        "seconds": time.perf_counter() - start, "margrave": margrave.__version__,
        "python": platform.python_version(), "day": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    with out.open("a") as handle:
        handle.write(json.dumps(line) + "\n")
    shown = [(fault["case"], fault["what"], fault["error"]) for fault in faults[:8]]
    report(f"{kind:8} {cases} cases  {dict(tally)}  faults {shown}")
    return len(faults)


if __name__ == "__main__":
    main()
