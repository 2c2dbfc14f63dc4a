"""What this program is here: the helper of a connection or, by the word ``sgdeploy-keeper``, a keeper.

Each imports its own part only.
"""

from __future__ import annotations

import os
import signal
import sys

from .boot import KEEPER
from .processes import do_nothing


def main(parcel: bytes) -> None:
    """Be the one or the other; ``parcel`` is this very program, as it came."""
    if sys.argv[1:2] == [KEEPER]:
        from .keeper import keeper_main

        keeper_main(sys.argv[2])
    else:
        serve(parcel)


def serve(parcel: bytes) -> None:
    """Say hello, then do what is asked. Most of the program is loaded while the greeting is on its way."""
    from .hello import greet

    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, do_nothing)
    awake = greet()
    from .server import Server

    Server(parcel, awake).run()
    os._exit(0)  # Threads that hang in the kernel must not hold us.
