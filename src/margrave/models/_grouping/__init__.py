"""Attributes with very many codes: groups of codes, and models over groups that answer in codes."""
