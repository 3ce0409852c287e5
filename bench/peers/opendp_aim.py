"""OpenDP's AIM on integer codes: python opendp_aim.py FOLDER EPSILON RHO.

Run in an environment of its own. Its delta has to be 0 when all keys are given, so it is given the rho that
(EPSILON, 1e-5) is worth, by the same tight conversion as ours."""

import json
import sys
import time
from pathlib import Path

import opendp.prelude as dp
import polars as pl

folder, rho = Path(sys.argv[1]), float(sys.argv[3])
sizes = json.loads((folder / "sizes.json").read_text())
dp.enable_features("contrib")
start = time.perf_counter()
context = dp.Context.compositor(
    data=pl.scan_csv(folder / "codes.csv"),
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(rho=rho),
)
table = (
    context.query(rho=rho)
    .select(*sizes)
    .contingency_table(
        keys={name: list(range(size)) for name, size in sizes.items()}, algorithm=dp.mbi.AIM(queries=2)
    )
    .release()
)
fitted = time.perf_counter()
rows = table.synthesize()
done = time.perf_counter()
rows.with_columns(pl.all().cast(pl.Int64).fill_null(0)).write_csv(folder / "rows.csv")
(folder / "record.json").write_text(json.dumps({"fit": fitted - start, "sample": done - fitted}))
