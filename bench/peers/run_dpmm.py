"""dpmm's AIM or MST on integer codes: python run_dpmm.py FOLDER, in an environment of its own.

Its models are called on the codes, without the binning of its pipelines, which would take epsilon of its own.
"""

import importlib.metadata
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM

folder = Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
codes = pd.read_csv(folder / "codes.csv")
kind = {"aim": AIMGM, "mst": MSTGM}[request["options"]["algorithm"]]
start = time.perf_counter()
model = kind(
    epsilon=request["epsilon"],
    delta=request["delta"],
    domain=request["sizes"],
    max_model_size=80,
    n_jobs=1,
    random_state=np.random.RandomState(request["seed"]),
)
model.fit(codes)
fitted = time.perf_counter()
rows = model.generate(n_records=request["rows"])
done = time.perf_counter()
rows[list(codes.columns)].astype(int).to_csv(folder / "rows.csv", index=False)
versions = {name: importlib.metadata.version(name) for name in request["packages"]}
record = {"fit": fitted - start, "sample": done - fitted, "versions": versions}
(folder / "record.json").write_text(json.dumps(record))
