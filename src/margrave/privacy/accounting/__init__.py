"""What spends cost: events, accountants, conversions between guarantees, composition, subsampling."""
