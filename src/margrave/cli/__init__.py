"""The command line: the app, and one module a command."""

from __future__ import annotations

from margrave.cli.app import main

__all__ = ["main"]
