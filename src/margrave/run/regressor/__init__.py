"""Regressions that spend their whole budget at the door on themselves: see docs/regression.md."""

from __future__ import annotations

from margrave.run.regressor.methods import DPSGD, SSP, AdaSSP, NoisyNewton, ObjPert
from margrave.run.regressor.regressor import Regressor
from margrave.run.regressor.result import PerturbedRegression

__all__ = ["DPSGD", "SSP", "AdaSSP", "NoisyNewton", "ObjPert", "PerturbedRegression", "Regressor"]
