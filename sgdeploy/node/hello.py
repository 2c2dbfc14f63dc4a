"""The greeting: who and where this helper is."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from .processes import boot_id

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .errors import Json

PROTOCOL = 1
HELLO = "SGDEPLOY-NODE "
SILENCE = 60.0
"""Seconds without any request after which the helper ends by itself (the controller pings every 15 s)."""


def greet() -> float:
    """Say hello; gives when that was, in seconds since the boot."""
    awake = since_boot()
    try:
        os.write(1, HELLO.encode() + json.dumps(hello()).encode() + b"\n")
    except OSError:
        os._exit(0)  # Nobody reads any more.
    return awake


def since_boot() -> float:
    """Give the seconds since the machine was booted, those included that it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def hello() -> Json:
    """Say who and where we are."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return {
        "protocol": PROTOCOL,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pid": os.getpid(),
        "user": user,
        "uid": os.getuid(),
        "home": str(Path("~").expanduser()),
        "hostname": os.uname().nodename,
        "boot_id": boot_id(),
        "time": time.time(),
    }
