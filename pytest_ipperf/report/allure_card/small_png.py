"""Reduce a plot to a palette, which a third of the bytes suffice for."""

from __future__ import annotations

import io

_COLOURS = 64


def small_png(png: bytes) -> bytes:
    """Return the picture with at most 64 colours; the same picture gives the same bytes.

    Pillow is a dependency of matplotlib, which drew the picture.
    """
    from PIL import Image  # noqa: PLC0415 - not needed where nothing is drawn

    written = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(written, format="png", optimize=True)
    return written.getvalue()
