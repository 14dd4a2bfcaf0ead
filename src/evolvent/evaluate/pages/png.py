"""Pictures as PNG with nothing but zlib: frames of an attempt on one sheet."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from evolvent.core.errors import BadInput

_WHITE = 225
_KIND = bytes((8, 2, 0, 0, 0))  # 8 bit RGB, not interlaced


def encode(picture_HWC: np.ndarray) -> bytes:
    """A PNG file (8 bit RGB, not interlaced) of a uint8 ``[H, W, 3]``.

    Raises:
        BadInput: another shape or type.
    """
    if picture_HWC.dtype != np.uint8 or picture_HWC.ndim != 3 or picture_HWC.shape[2] != 3 or not picture_HWC.size:
        raise BadInput(
            "not a picture",
            got=f"{picture_HWC.dtype} {picture_HWC.shape}",
            expected="uint8 [H, W, 3]",
            where="png.encode",
        )
    height, width, _ = picture_HWC.shape
    less = picture_HWC.copy()
    less[:, 1:] -= picture_HWC[:, :-1]  # filter 1: the difference to the pixel on the left, modulo 256
    packed = [_packed(picture_HWC, 0), _packed(less, 1)]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", min(packed, key=len)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def bright(data: bytes) -> bool:
    """Whether most of a picture that ``encode`` wrote is white: on a dark page its colours want to be turned round."""
    try:
        return data[24:29] == _KIND and data.count(b"IDAT") == 1 and _bright(data)
    except (ValueError, struct.error, zlib.error):  # torn
        return False


def _bright(data: bytes) -> bool:
    header, body = data.index(b"IHDR") + 4, data.index(b"IDAT")
    width, height = struct.unpack(">II", data[header : header + 8])
    (size,) = struct.unpack(">I", data[body - 4 : body])
    rows = np.frombuffer(zlib.decompress(data[body + 4 : body + 4 + size]), np.uint8).reshape(height, 1 + 3 * width)
    pixels = rows[:, 1:].reshape(height, width, 3)
    if rows[0, 0]:  # differences to the pixel on the left
        pixels = pixels.cumsum(axis=1, dtype=np.uint8)
    return float((pixels.min(axis=2) > _WHITE).mean()) > 0.5


def sheet(frames: Sequence[np.ndarray], *, columns: int = 4, side: int = 176, gap: int = 3) -> np.ndarray:
    """Frames, uint8 ``[H, W, 3]``, beside and below one another on grey, each made smaller by a whole factor.

    ``side`` is what neither height nor width of a frame should exceed by much, ``gap`` the pixels between them.
    """
    small = [_smaller(frame, max(1, round(max(frame.shape[:2]) / side))) for frame in frames]
    height, width, _ = small[0].shape
    columns = min(columns, len(small))
    rows = -(-len(small) // columns)
    out = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), 160, np.uint8)
    for i, frame in enumerate(small):
        y, x = i // columns * (height + gap), i % columns * (width + gap)
        out[y : y + height, x : x + width] = frame
    return out


def _smaller(frame_HWC: np.ndarray, factor: int) -> np.ndarray:
    """The mean of each ``factor`` x ``factor`` block; what is left over at the edge is cut off."""
    height, width = (n // factor * factor for n in frame_HWC.shape[:2])
    blocks = frame_HWC[:height, :width].reshape(height // factor, factor, width // factor, factor, 3)
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)


def _packed(rows_HWC: np.ndarray, filter_type: int) -> bytes:
    flat = rows_HWC.reshape(len(rows_HWC), -1)
    marked = np.concatenate([np.full((len(flat), 1), filter_type, np.uint8), flat], axis=1)
    return zlib.compress(marked.tobytes(), 9)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
