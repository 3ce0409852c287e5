"""The floor plan: the promises between rooms. No code lives here.

Source --bind(schema)--> Engine --count--> Counts --Curator.measure--> NoisyMarginal
Strategy.run(curator, fitter) -> Model --sample--> Encoded
"""

from margrave.protocols.door import Curator, Engine, Ensemble, Learner, RowEngine, Source
from margrave.protocols.models import (
    DoorFitter,
    Fitter,
    LearnsFrom,
    Model,
    MomentsFitter,
    SlicesFitter,
    Strategy,
    TaughtFitter,
    TrainedFitter,
)

__all__ = [
    "Curator",
    "DoorFitter",
    "Engine",
    "Ensemble",
    "Fitter",
    "Learner",
    "LearnsFrom",
    "Model",
    "MomentsFitter",
    "RowEngine",
    "SlicesFitter",
    "Source",
    "Strategy",
    "TaughtFitter",
    "TrainedFitter",
]
