"""SmartNoise's AIM on integer codes: python smartnoise_aim.py FOLDER EPSILON RHO, in its own environment."""

import json
import sys
import time
from pathlib import Path

import pandas as pd
from snsynth import Synthesizer

folder, epsilon = Path(sys.argv[1]), float(sys.argv[2])
codes = pd.read_csv(folder / "codes.csv")
start = time.perf_counter()
synthesizer = Synthesizer.create("aim", epsilon=epsilon, delta=1e-5)
synthesizer.fit(codes, categorical_columns=list(codes.columns), preprocessor_eps=0.0)
fitted = time.perf_counter()
rows = synthesizer.sample(len(codes))
done = time.perf_counter()
pd.DataFrame(rows, columns=codes.columns).astype(int).to_csv(folder / "rows.csv", index=False)
(folder / "record.json").write_text(json.dumps({"fit": fitted - start, "sample": done - fitted}))
