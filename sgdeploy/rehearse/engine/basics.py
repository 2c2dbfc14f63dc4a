"""Knobs from the environment, the log, and small reads: what every process of an engine uses."""

from __future__ import annotations

import os
import time


def setting(name: str, default: float) -> float:
    """Read a number from the environment; what is no number counts as unset."""
    try:
        return float(os.environ[name])
    except (KeyError, ValueError):
        return default


SPEED = max(setting("SGDEPLOY_REHEARSE_SPEED", 1.0), 0.001)
HEALTH_SECONDS = setting("SGDEPLOY_REHEARSE_HEALTH_SECONDS", 1.0)  # the real one looks again after exactly 1 s
HEALTH_LIMIT = setting("SGLANG_HEALTH_CHECK_TIMEOUT", 20.0)  # the engine's own variable and default
DECODE_SECONDS = setting("SGDEPLOY_REHEARSE_DECODE_SECONDS", 0.0)


def read_file(path: str) -> str:
    """Read a small file without the cost of importing pathlib or io's text layer."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 20).decode(errors="replace")
    finally:
        os.close(fd)


def emit(text: str) -> None:
    """Write whole lines in one call, so that lines of several processes never mix; a closed log is no error."""
    try:
        os.write(1, (text + "\n").encode())
    except OSError:
        return


def log(text: str, label: str = "") -> None:
    """Write a log line as the engine does: ``[date time LABEL] text``."""
    emit("[" + time.strftime("%Y-%m-%d %H:%M:%S") + label + "] " + text)


def clock(seconds: float) -> str:
    """Give a time of day as the engine's health line has it."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))
