"""The benchmark: methods and peers against each other over a declared grid. Not private: it reads every row.

    grid      what is to be run: data sets x methods x epsilons x repeats
    datasets  entries for tables, the hard ones made here among them
    prepared  what of a table is public, what methods learn from, what is held out
    methods   entries for methods, those of other libraries in environments of their own among them
    cell      one cell in a process of its own
    run       the loop over the cells that are not done yet, each kept within its limits
    results   the folder: one file a finished cell, all of them as Parquet, and their means with intervals
    page      the report, from markdown (tables, in LaTeX too) and pictures (SVG); one method against the
              best of some others

A new table or method is one small file, see `benchmark.datasets.table_entry` and
`benchmark.methods.method_entry`.
"""

from __future__ import annotations
