"""Strategies that decide which marginals to buy; they see a curator, never data."""
