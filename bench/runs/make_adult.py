"""Make the Adult table that ships with margrave from the two raw files of the UCI repository.

    python bench/runs/make_adult.py adult.data adult.test src/margrave/datasets

The raw files may be gzipped. The output is the same every time.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

HEADER = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours-per-week,native-country,income"
)


def main() -> None:
    """Read both raw files and write both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path, help="adult.data or adult.data.gz")
    parser.add_argument("test", type=Path, help="adult.test or adult.test.gz")
    parser.add_argument("folder", type=Path, help="where adult.csv.gz and adult_test.csv.gz go")
    arguments = parser.parse_args()
    for raw, name in ((arguments.train, "adult.csv.gz"), (arguments.test, "adult_test.csv.gz")):
        lines = rows(raw)
        write(arguments.folder / name, lines)
        print(f"{arguments.folder / name}: {len(lines)} rows")


def rows(raw: Path) -> list[str]:
    """The rows of a raw file as CSV; the test file starts with a remark and its labels end in a dot."""
    opened = gzip.open if raw.suffix == ".gz" else open
    with opened(raw, "rt", encoding="ascii") as file:
        lines = [line.strip().rstrip(".") for line in file]
    kept = [line for line in lines if line and not line.startswith("|")]
    cells = [line.split(", ") for line in kept]
    if any(len(row) != 15 or any("," in cell or '"' in cell for cell in row) for row in cells):
        raise SystemExit(f"{raw} is not the file that was expected")
    return [",".join(row) for row in cells]


def write(path: Path, lines: list[str]) -> None:
    """A gzip file without a name or time in it, so that it is the same every time."""
    text = "\n".join([HEADER, *lines, ""])
    with (
        open(path, "wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0) as packed,
    ):
        packed.write(text.encode("ascii"))


if __name__ == "__main__":
    main()
