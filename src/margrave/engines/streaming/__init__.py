"""Tables larger than memory, read in batches. Not private."""
