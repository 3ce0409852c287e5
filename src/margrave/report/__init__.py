"""Self-contained HTML pages about a release."""
