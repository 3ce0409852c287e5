"""Which pairs, triples and tables of ranks are worth buying where noise would hide most of them."""
