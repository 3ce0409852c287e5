"""Contingency tables of a release: estimated with their uncertainty, written to files and read from them."""
