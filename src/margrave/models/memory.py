"""What a fitted model may take of memory: figures that its limit and the plan share."""

from __future__ import annotations

__all__ = ["A_CODE", "A_SQUARE", "CELL_BYTES", "LEAST", "PROGRAM"]

PROGRAM, CELL_BYTES = 320_000_000, 100
"""Bytes of the program with its libraries, and at most of one cell of a junction tree: its belief, index
maps, the optimiser's history, and the tables on the way to all pairs and to rows. bench/runs/aim_load.py
checks them."""

A_SQUARE, A_CODE = 84, 24
"""Bytes at most of each pair of codes in a mixture, and of each code in each component: measurements, the
two halves that candidates are fitted to and judged by, model and gradients, the optimiser's memory, and the
tables on the way to rows."""

LEAST = 400_000_000
"""The least max_memory that leaves room for a model."""
