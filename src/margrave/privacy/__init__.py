"""Units, events, the ledger, accounting and exact noise: this room knows no tables."""
