"""The one small real table that ships, for the demo and the tests."""
