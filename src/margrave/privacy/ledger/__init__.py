"""The ledger of a run, the files it is kept in, and the book of caps over many runs."""
