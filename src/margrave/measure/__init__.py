"""The door: every answer that leaves the private table is noised and recorded here."""
