"""Models that are tables of rows: what a row generator has made of released marginals."""
