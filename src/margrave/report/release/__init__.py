"""The page of a release: made of released quantities alone."""
