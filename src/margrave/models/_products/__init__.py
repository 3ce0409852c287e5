"""Mixtures of products fitted on PyTorch: what relaxed rows, networks and mean embeddings share."""
