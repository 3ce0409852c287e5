"""Pictures of classes as tables, so that any method makes a release of them, and back; see docs/images.md."""

from __future__ import annotations

from margrave.images.pixels import Pixels, draw_sheet, read_images, write_images

__all__ = ["Pixels", "draw_sheet", "read_images", "write_images"]
