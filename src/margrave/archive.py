"""The release file: one zip of versioned JSON and .npy arrays. No pickle, checked before it is used."""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import MargraveError, ReleaseError, invalid
from margrave.files import check_writable, written_whole
from margrave.privacy.accounting.events import Event, event_from_json, event_to_json
from margrave.privacy.ledger.history import DatasetHistory
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee, KnownNoise, NoisyMarginal, NoisySlices, NoisySums, Provenance, Release
from margrave.schema.constraints.rules import rule_from_json
from margrave.schema.features import RowNumbers
from margrave.schema.schema import COLUMN_KINDS, Schema, find_kind
from margrave.schema.storage.text import TextFormat

VERSION = 2
"""Newest version of the release format that is read."""
PRIVATE_VERSION = 1
"""Releases of private runs are written as version 1. A test run, whose noise comes from a seed, is of version
2: programs from before there were such runs refuse its file instead of showing it as private."""
DOCUMENT = "release.json"
RELEASE, SLICES = "margrave_release", "margrave_slices"
"""Keys of a document that say of what kind and version the file is."""
SLICES_VERSION = 1
"""Version of the format of slices files."""
WORDS = {RELEASE: "release file", SLICES: "slices file"}
"""What messages call the kinds."""
MAX_CONTENT_BYTES = 1 << 35
"""Most bytes that the parts of a file may unpack to, 32 GiB: a small file could be made that unpacks to any
size. Releases stay far below it, though a model may have hundreds of MB, and public rows more."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The moment that every file in an archive is dated: the earliest that zip knows, so that equal releases
are equal bytes."""

Built = TypeVar("Built")


def save_release(release: Release, path: str | Path) -> None:
    """Write a release file, whole or not at all.

    Raises:
        InputError: The path cannot be written.
    """
    check_writable(path, "path")
    arrays: dict[str, NDArray[Any]] = {}
    marginals = []
    for index, marginal in enumerate(release.measurements):
        arrays[f"marginal/{index}/values"] = marginal.values
        arrays[f"marginal/{index}/sigma"] = np.asarray(marginal.sigma, dtype=np.float64)
        marginals.append(list(marginal.clique))
    arrays |= {f"state/{name}": np.asarray(value) for name, value in release.state.items()}
    if release.sums is not None:
        arrays |= {
            f"sums/numbers/{index}": matrix for index, matrix in enumerate(release.sums.numbers.numbers)
        }
        arrays["sums/values"] = release.sums.values
    if release.public:
        arrays["public"] = np.frombuffer(release.public, dtype=np.uint8)
    # A version is raised only where a file could be misunderstood, so that older programs read what they
    # can.
    document = {
        RELEASE: VERSION if release.guarantee.warning else PRIVATE_VERSION,
        "guarantee": guarantee_to_json(release.guarantee),
        "schema": release.schema.to_json(),
        "marginals": marginals,
        "events": [event_to_json(event) for event in release.events],
        "strategy": release.strategy,
        "fitter": release.fitter,
        "state": sorted(release.state),
        "total": release.total,
        "frame": release.frame,
        "dtypes": dict(release.dtypes),
        "notes": dict(release.notes),
        "declared": None if release.declared is None else list(release.declared),
        "text": release.text.to_json(),
        "provenance": provenance_to_json(release.provenance),
        "rules_left_out": [rule.to_json() for rule in release.rules_left_out],
        "sums": _sums_to_json(release.sums),
    }
    _write_archive(path, document, arrays)


def load_release(path: str | Path) -> Release:
    """Read a release file.

    Raises:
        ReleaseError: It is missing, damaged, not a release, or written by a newer version.
    """
    return _read_archive(path, RELEASE, VERSION, _release)


def save_slices(
    slices: NoisySlices,
    bounds: tuple[float, float],
    guarantee: Guarantee,
    events: Sequence[Event],
    path: str | Path,
) -> None:
    """Write noisy copies of rows as a file of their own, whole or not at all.

    It holds what was released and nothing else: the copies, what their numbers mean, and what was spent.

    Raises:
        InputError: The path cannot be written.
    """
    check_writable(path, "path")
    document = {
        SLICES: SLICES_VERSION,
        "guarantee": guarantee_to_json(guarantee),
        "events": [event_to_json(event) for event in events],
        "names": list(slices.numbers.names),
        "constant": slices.numbers.constant,
        "bounds": list(bounds),
        "sigma": slices.sigma,
        "shortened": slices.shortened,
        "shortened_sigma": slices.shortened_sigma,
    }
    arrays = {f"numbers/{index}": matrix for index, matrix in enumerate(slices.numbers.numbers)}
    _write_archive(path, document, {"values": slices.values, **arrays})


def load_slices(
    path: str | Path,
) -> tuple[NoisySlices, tuple[float, float], Guarantee, tuple[Event, ...]]:
    """What `save_slices` was given.

    Raises:
        ReleaseError: The file is missing, damaged, not one of noisy copies, or of a newer version.
    """
    return _read_archive(path, SLICES, SLICES_VERSION, _slices)


def _slices(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]
) -> tuple[NoisySlices, tuple[float, float], Guarantee, tuple[Event, ...]]:
    names = tuple(str(name) for name in document["names"])
    matrices = tuple(arrays[f"arrays/numbers/{index}.npy"] for index in range(len(names)))
    numbers, values = RowNumbers(names, matrices, bool(document["constant"])), arrays["arrays/values.npy"]
    lower, upper = (float(bound) for bound in document["bounds"])
    sigma = float(document["sigma"])
    count, spread = (
        None if document[key] is None else float(document[key]) for key in ("shortened", "shortened_sigma")
    )
    sound = values.ndim == 2 and values.dtype == np.float64 and values.shape[1:] == (numbers.size,)
    sound = sound and bool(np.isfinite(values).all()) and math.isfinite(sigma) and sigma > 0
    if not (sound and math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise ReleaseError(_damaged_error(SLICES))
    events = tuple(event_from_json(event) for event in document["events"])
    held = NoisySlices(numbers, values, sigma, count, spread)
    return held, (lower, upper), guarantee_from_json(document["guarantee"]), events


def _write_archive(path: str | Path, document: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """One zip of a JSON document and arrays, with a digest of each array in the document."""
    blobs = {f"arrays/{name}.npy": _to_npy(value) for name, value in arrays.items()}
    digests = {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()}
    body = json.dumps({**document, "sha256": digests}, indent=1, ensure_ascii=False).encode()
    with written_whole(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, blob in {DOCUMENT: body, **blobs}.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), blob, zipfile.ZIP_DEFLATED)


def _read_archive(
    path: str | Path,
    kind: str,
    version: int,
    build: Callable[[dict[str, Any], dict[str, NDArray[Any]]], Built],
) -> Built:
    """What `build` makes of the document and the arrays of a file, which are checked first.

    Raises:
        ReleaseError: It is missing, damaged, of another kind, or written by a newer version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > MAX_CONTENT_BYTES:
                constraint = f"a {WORDS[kind]} that unpacks to at most {MAX_CONTENT_BYTES:,} bytes"
                raise ReleaseError(invalid("path", constraint, "Ask for it anew.", got=str(path)))
            document = json.loads(archive.read(DOCUMENT))
            _check_version(document, kind, version)
            # Each array has to have the digest that the document says: a file whose parts were exchanged is
            # refused.
            arrays = {
                name: _from_npy(archive.read(name), digest, kind)
                for name, digest in document["sha256"].items()
            }
        return build(document, arrays)
    except FileNotFoundError:
        constraint = f"an existing {WORDS[kind]}"
        raise ReleaseError(invalid("path", constraint, "Check the path.", got=str(path))) from None
    except ReleaseError:
        raise
    except (
        OSError,
        MargraveError,
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        AttributeError,
        RuntimeError,
        OverflowError,
    ) as error:
        raise ReleaseError(_damaged_error(kind)) from error


def guarantee_to_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON: epsilon and delta are null where the noise is known and nothing is promised."""
    known = guarantee.known_noise
    mark = None if known is None else {"seed": known.seed, "epsilon": known.epsilon, "delta": known.delta}
    return (
        ({} if mark is None else {"NOT PRIVATE": guarantee.warning, "known_noise": mark})
        | {
            "epsilon": guarantee.epsilon if known is None else None,
            "delta": guarantee.delta if known is None else None,
            "rho": guarantee.rho,
            "accounting": guarantee.accounting,
            "adjacency": guarantee.neighbours.adjacency,
            "owner": guarantee.neighbours.unit.owner,
            "max_rows": guarantee.neighbours.unit.max_rows,
        }
        | ({"public": list(guarantee.neighbours.public)} if guarantee.neighbours.public else {})
    )


def guarantee_from_json(promise: Mapping[str, Any]) -> Guarantee:
    """The guarantee that `guarantee_to_json` wrote."""
    # Noise that can be repeated promises nothing, whatever else the file says.
    mark = promise.get("known_noise")
    known = None
    if mark is not None:
        known = KnownNoise(int(mark["seed"]), float(mark["epsilon"]), float(mark["delta"]))
    return Guarantee(
        float(promise["epsilon"]) if known is None else math.inf,
        float(promise["delta"]) if known is None else 1.0,
        float(promise["rho"]),
        Neighbours(
            Unit(promise["owner"], promise["max_rows"]),
            promise["adjacency"],
            tuple(promise.get("public", ())),
        ),
        str(promise["accounting"]),
        known,
    )


def provenance_to_json(provenance: Provenance) -> dict[str, Any]:
    """Where a release comes from, as JSON."""
    history = provenance.history
    return {
        "dataset": provenance.dataset,
        "operator": provenance.operator,
        "source": provenance.source,
        "date": provenance.date,
        "schema": provenance.schema,
        "history": None if history is None else history.to_json(),
    }


def _read_provenance(document: Mapping[str, Any]) -> Provenance:
    """What `provenance_to_json` wrote; empty in files of older versions."""
    history = document.get("history")
    names = ("dataset", "operator", "source", "date", "schema")
    return Provenance(
        **{name: str(document.get(name, "")) for name in names},
        history=None if history is None else DatasetHistory.from_json(history),
    )


def _release(document: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]) -> Release:
    _check_kinds(document["schema"])
    schema = Schema.from_json(document["schema"])
    # Names are checked before arrays are used: a clique that is not of the schema is damage.
    for clique in document["marginals"]:
        schema.domain.shape([str(name) for name in clique])
    return Release(
        schema=schema,
        measurements=tuple(
            NoisyMarginal(
                tuple(str(name) for name in clique),
                arrays[f"arrays/marginal/{i}/values.npy"],
                arrays[f"arrays/marginal/{i}/sigma.npy"],
            )
            for i, clique in enumerate(document["marginals"])
        ),
        guarantee=guarantee_from_json(document["guarantee"]),
        events=tuple(event_from_json(event) for event in document["events"]),
        strategy=str(document["strategy"]),
        fitter=_fitter(document),
        state={name: arrays[f"arrays/state/{name}.npy"] for name in document["state"]},
        total=float(document["total"]),
        frame=str(document["frame"]),
        dtypes=_check_texts(document["dtypes"]),
        notes=_check_texts(document["notes"]),
        declared=_read_names(document.get("declared"), schema),
        text=TextFormat.from_json(document.get("text", {})),
        provenance=_read_provenance(document.get("provenance", {})),
        rules_left_out=tuple(rule_from_json(entry) for entry in document.get("rules_left_out", [])),
        sums=_read_sums(document.get("sums"), arrays),
        public=np.asarray(arrays.get("arrays/public.npy", ()), dtype=np.uint8).tobytes(),
    )


def _check_kinds(schema: Any) -> None:
    """Refuse a schema with kinds of columns that are not known here: its extension is missing."""
    named = {str(column["kind"]) for column in schema["columns"]}
    unknown = sorted(kind for kind in named if find_kind(kind) is None)
    if unknown:
        remedy = "Install the extension that adds the others, or call margrave.schema.schema.register_column."
        constraint = f"made of the kinds of columns {sorted(COLUMN_KINDS)}"
        raise ReleaseError(invalid("schema of the release", constraint, remedy, got=unknown))


def _sums_to_json(sums: NoisySums | None) -> dict[str, Any] | None:
    """All but the arrays; None without sums."""
    if sums is None:
        return None
    noise = {"sigma": sums.sigma, "diagonal_sigma": sums.diagonal_sigma}
    return {"names": list(sums.numbers.names), "constant": sums.numbers.constant} | noise


def _read_sums(document: Any, arrays: Mapping[str, NDArray[np.float64]]) -> NoisySums | None:
    """What `_sums_to_json` and the arrays say; None in files of older versions."""
    if document is None:
        return None
    names = tuple(str(name) for name in document["names"])
    matrices = tuple(arrays[f"arrays/sums/numbers/{index}.npy"] for index in range(len(names)))
    numbers, values = (
        RowNumbers(names, matrices, bool(document["constant"])),
        arrays["arrays/sums/values.npy"],
    )
    if values.shape != (numbers.size, numbers.size) or not np.isfinite(values).all():
        raise ReleaseError(_damaged_error())
    return NoisySums(numbers, values, float(document["sigma"]), float(document["diagonal_sigma"]))


def _fitter(document: Mapping[str, Any]) -> str:
    """The name of the estimator that the state is of.

    Until 2026-11 a training that had been stopped was saved as "diffusion" with independent columns.
    """
    name = str(document["fitter"])
    return "independent" if name == "diffusion" and "ways" in document["state"] else name


def _read_names(document: Any, schema: Schema) -> tuple[str, ...] | None:
    """Names of columns, or None where they were not recorded."""
    return None if document is None else tuple(schema[name].name for name in document)


def _check_texts(document: Any) -> dict[str, str]:
    """A JSON object all of whose values are texts."""
    if not all(isinstance(value, str) for value in document.values()):
        raise ReleaseError(_damaged_error())
    return dict(document)


def _check_version(document: Any, kind: str, newest: int) -> None:
    version = document.get(kind) if isinstance(document, dict) else None
    if not isinstance(version, int):
        raise ReleaseError(_damaged_error(kind))
    if version > newest:
        raise ReleaseError(
            invalid(WORDS[kind], f"of version {newest} or older", "Upgrade margrave.", got=version)
        )


def _damaged_error(kind: str = RELEASE) -> str:
    whole = "a whole margrave release" if kind == RELEASE else "a whole file of noisy copies"
    return invalid(WORDS[kind], whole, "It is damaged or something else; save it again.")


def _to_npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _from_npy(blob: bytes, digest: str, kind: str) -> NDArray[Any]:
    if hashlib.sha256(blob).hexdigest() != digest:
        raise ReleaseError(_damaged_error(kind))
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
    return array
