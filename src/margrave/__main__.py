"""`python -m margrave` is the command line."""

from __future__ import annotations

from margrave.cli import main

if __name__ == "__main__":
    main()
