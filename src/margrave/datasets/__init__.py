"""Tables that ship with margrave: Adult, a small real one, and a made-up hospital of any size."""

from __future__ import annotations

from margrave.datasets.adult import adult_path, load_adult
from margrave.datasets.hospital import make_hospital

__all__ = ["adult_path", "load_adult", "make_hospital"]
