"""One process of the simulated engine."""

from __future__ import annotations

import os
import signal
import sys

from .engine import Engine
from .faults import Faults
from .settings import Settings, UsageError, refuse

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NoReturn


def main(words: list[str]) -> NoReturn:
    """Run one process of the simulated engine."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        settings = Settings(words)
        faults = Faults(os.environ.get("SGDEPLOY_REHEARSE_FAIL", ""), settings)
    except UsageError as error:
        refuse(str(error))
    Engine(settings, faults).run()


if __name__ == "__main__":
    main(sys.argv[1:])
