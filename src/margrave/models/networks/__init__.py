"""Generator networks: GEM's, fitted to marginals, and DP-MERF's, fitted to Fourier features too."""
