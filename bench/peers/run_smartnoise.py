"""SmartNoise's AIM or MST on integer codes: python run_smartnoise.py FOLDER, in an environment of its own.

The label transformers are given all codes of the public domain, so that no part of epsilon goes to them.
"""

import importlib.metadata
import json
import sys
import time
from pathlib import Path

import pandas as pd
from snsynth import Synthesizer
from snsynth.transform import LabelTransformer, TableTransformer

folder = Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
codes = pd.read_csv(folder / "codes.csv")
domain = pd.DataFrame(
    {
        name: [min(k, size - 1) for k in range(max(request["sizes"].values()))]
        for name, size in request["sizes"].items()
    }
)
transformer = TableTransformer([LabelTransformer(nullable=False) for _ in codes.columns])
transformer.fit(domain)
start = time.perf_counter()
synthesizer = Synthesizer.create(
    request["options"]["algorithm"], epsilon=float(request["epsilon"]), delta=request["delta"]
)
synthesizer.fit(codes, transformer=transformer, preprocessor_eps=0.0)
fitted = time.perf_counter()
rows = synthesizer.sample(request["rows"])
done = time.perf_counter()
pd.DataFrame(rows, columns=codes.columns).astype(int).to_csv(folder / "rows.csv", index=False)
versions = {name: importlib.metadata.version(name) for name in request["packages"]}
record = {"fit": fitted - start, "sample": done - fitted, "versions": versions}
(folder / "record.json").write_text(json.dumps(record))
