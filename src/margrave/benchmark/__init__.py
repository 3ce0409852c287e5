"""The benchmark: methods and peers against each other over a declared grid. Not private: it reads every row.

    grid      what is to be run: data sets x methods x epsilons x repeats
    datasets  entries for tables; domain says what of a table is public, hard makes tables that are hard
    methods   entries for methods; peers runs those of other libraries in environments of their own
    cell      one cell in a process of its own; watch keeps it within its limits
    store     the folder of a benchmark: one file a finished cell, all of them as Parquet
    run       the loop over the cells that are not done yet
    page      the report: outcomes as Markdown, LaTeX and pictures

A new table or method is one small file, see `benchmark.datasets.table_entry` and
`benchmark.methods.method_entry`.
"""

from __future__ import annotations
