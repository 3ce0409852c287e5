"""The verbs of regressions: sums of products, their parts, slopes, and perturbed objectives."""
