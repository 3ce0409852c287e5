"""The verbs of the door that spend: one mechanism, one proof, one file."""
