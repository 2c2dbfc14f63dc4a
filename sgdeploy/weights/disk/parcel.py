"""The worker packed for a journey: one file that any python3 from 3.7 on runs."""

from __future__ import annotations

from sgdeploy.parcels import archive

NAME = "split.pyz"


def parcel() -> bytes:
    """Pack it; the same source gives the same bytes."""
    return archive("weights/worker")
