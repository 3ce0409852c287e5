"""Exact answers about private rows. Not private; only the door may hold an engine."""
