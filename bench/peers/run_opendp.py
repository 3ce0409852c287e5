"""OpenDP's AIM or MST on integer codes: python run_opendp.py FOLDER, in an environment of its own.

With all keys given its delta has to be 0, so it is given the rho that (epsilon, delta) is worth by the same
tight conversion as ours. Its own sampler draws the rows, and a value that it leaves open becomes code 0.
"""

import importlib.metadata
import json
import sys
import time
from pathlib import Path

import opendp.prelude as dp
import polars as pl

folder = Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
sizes, rho = request["sizes"], request["rho"]
dp.enable_features("contrib")
algorithm = {"aim": lambda: dp.mbi.AIM(queries=2), "mst": dp.mbi.MST}[request["options"]["algorithm"]]()
start = time.perf_counter()
context = dp.Context.compositor(
    data=pl.scan_csv(folder / "codes.csv"),
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(rho=rho),
)
keys = {name: list(range(size)) for name, size in sizes.items()}
table = context.query(rho=rho).select(*sizes).contingency_table(keys=keys, algorithm=algorithm).release()
fitted = time.perf_counter()
rows = table.synthesize()
done = time.perf_counter()
rows.with_columns(pl.all().cast(pl.Int64).fill_null(0)).write_csv(folder / "rows.csv")
versions = {name: importlib.metadata.version(name) for name in request["packages"]}
record = {"fit": fitted - start, "sample": done - fitted, "versions": versions}
(folder / "record.json").write_text(json.dumps(record))
