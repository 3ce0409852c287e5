"""The small real table that ships with the package."""
