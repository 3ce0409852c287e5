"""Named methods of the literature: which strategy goes with which model."""
