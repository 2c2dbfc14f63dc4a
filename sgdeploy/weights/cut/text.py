"""Sizes in words, as disks and file systems of checkpoints are talked about: powers of ten."""

from __future__ import annotations

_STEP = 1000


def bytes_text(size: float) -> str:
    """Write bytes for people: ``812 bytes``, ``1.2 MB``, ``692.4 GB``."""
    if size < _STEP:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= _STEP
        if size < _STEP:
            return f"{size:.1f} {unit}"
    return f"{size:.1f} GB" if size < _STEP * 10 else f"{size / _STEP:.1f} TB"
