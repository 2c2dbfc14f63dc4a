"""Reading and writing files: short reads of /proc and /sys, writes in one step, JSON, and faults that name the path."""

from __future__ import annotations

import contextlib
import json
import os
import threading

from .errors import OpError, os_fault

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

    from .errors import Json


KIB, MIB = 1 << 10, 1 << 20
CHUNK = 64 * KIB
TEXT_LIMIT = MIB


def slurp(path: str, limit: int = TEXT_LIMIT) -> bytes | None:
    """Read at most ``limit`` bytes; None where the file cannot be read. Cheap, for /proc and /sys."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    parts: list[bytes] = []
    try:
        while limit > 0:
            part = os.read(descriptor, min(limit, CHUNK))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(parts)


def word(path: str) -> str | None:
    """Read a short text file without the white space around it; None where it cannot be read."""
    data = slurp(path, 4 * KIB)
    return None if data is None else data.decode("utf-8", "replace").strip()


def make_folder(path: Path) -> list[Path]:
    """Make a folder that only we may enter, and those above it; gives the ones that were made."""
    missing: list[Path] = []
    try:
        for folder in (path, *path.parents):
            if folder.is_dir():
                break
            missing.append(folder)
        return [folder for folder in reversed(missing) if make_one(folder, 0o700 if folder == path else 0o777)]
    except OSError as error:
        raise os_fault(error, path, "make the folder") from error


def make_one(folder: Path, mode: int) -> bool:
    """Make one folder; False where somebody else has made it just now."""
    try:
        folder.mkdir(mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file that may be gone already."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise os_fault(error, path, "remove") from error


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
    """Write a file in one step: under a temporary name, synced, renamed; on failure nothing of it is left.

    Without ``sync`` the space for it is set aside nevertheless, but a power cut may leave it empty.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")  # as drafts_in reads it
    try:
        descriptor = os.open(str(draft), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            with contextlib.suppress(OSError):  # Some file systems cannot; the write itself tells of a full disk.
                os.posix_fallocate(descriptor, 0, max(1, len(data)))
            stream.write(data)
            stream.truncate(len(data))
            if sync:
                os.fsync(descriptor)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise os_fault(error, path, "write") from error


def drafts_in(folder: Path) -> list[tuple[Path, int]]:
    """Give the files in a folder that are half-written, and the pid of who writes or wrote each."""
    found = ((path, path.name.split(".")[-3]) for path in folder.glob(".*.*.*.tmp"))
    return [(path, int(pid)) for path, pid in found if pid.isdigit()]


def to_bytes(text: str) -> bytes:
    """Encode; bytes that were not UTF-8 on the controller come through unchanged."""
    return text.encode("utf-8", "surrogateescape")


def write_json(path: Path, value: Json, *, sync: bool = True) -> None:
    """Write JSON in one step."""
    write_atomic(path, json.dumps(value, indent=1).encode() + b"\n", sync=sync)


def read_json(path: Path) -> Json | None:
    """Read a JSON object; None where there is no such file."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise bad_record(path, str(error)) from error
    except OSError as error:
        raise os_fault(error, path, "read") from error
    if not isinstance(value, dict):
        raise bad_record(path, "it holds no JSON object")
    return value


def bad_record(path: Path, why: str) -> OpError:
    """Say that a file of ours was damaged (by hand, by a disk), and what to do about it."""
    return OpError("bad-record", f"{path} is damaged: {why}", f"move it away: mv {path} {path}.damaged", path=str(path))


def read_intact(path: Path) -> Json | None:
    """Read a JSON object; None also where it is damaged."""
    try:
        return read_json(path)
    except OpError:
        return None


def remove_tree(path: Path) -> None:
    """Remove one of our folders with its files."""
    import shutil

    try:
        shutil.rmtree(str(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise os_fault(error, error.filename or path, "remove") from error
