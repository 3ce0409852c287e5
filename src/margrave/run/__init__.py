"""What a run decides and does: its options, its plan, the run itself, and all that comes after it."""
