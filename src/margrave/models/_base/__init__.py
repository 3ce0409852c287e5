"""What every family of models stands on: pooled measurements, rules, evidence, limits, compiled loops."""
