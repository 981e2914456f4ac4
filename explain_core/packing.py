"""Zstandard: that of Python's own library from 3.14 on, and its backport before."""

from __future__ import annotations

import sys

from explain_core.state import StateError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = -1
"""A forest takes a tenth more bytes than by zstd's default of 3, and half the time."""


def packed(raw: bytes) -> bytes:
    """One frame, which says how many bytes are in it."""
    return zstd.compress(raw, LEVEL)


def unpacked(data: bytes, size: int) -> bytes:
    """What is in a frame; ``size`` is the number of bytes that its manifest names, and no more memory is taken. Raises ``StateError``."""
    try:
        if zstd.get_frame_info(data).decompressed_size != size:
            raise StateError("its size is not that of the manifest")
        reader = zstd.ZstdDecompressor()
        raw = reader.decompress(data, max_length=max(size, 1))
    except zstd.ZstdError as error:
        raise StateError(f"its bytes cannot be decompressed: {error}") from None
    if not reader.eof or len(raw) != size:
        raise StateError("its bytes cannot be decompressed: the end is missing")
    return raw
