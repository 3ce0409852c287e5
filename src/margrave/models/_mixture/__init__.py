"""Mixtures of products: the model and its rows, with blocks of attributes and refinements."""
