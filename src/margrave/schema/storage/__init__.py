"""How values are stored: in Arrow, pandas and polars, as text, as dates and times."""
