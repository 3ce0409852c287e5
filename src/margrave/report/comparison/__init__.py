"""The page of a comparison with real rows: it says on its face that it is not private."""
