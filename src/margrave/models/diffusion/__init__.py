"""Gaussian and multinomial diffusion of rows, trained at the door; see docs/methods/tabddpm.md."""
