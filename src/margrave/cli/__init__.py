"""The command line: the app with the commands that spend, and modules for the others."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, also where it is stopped before all of it has been loaded."""
    try:
        from margrave.cli.app import main as run_app
    except KeyboardInterrupt:
        sys.exit("margrave: stopped before anything was read, spent or written; run the same command again")
    run_app()
