"""Hugepages: asked for, read back, and given back as they were."""

from __future__ import annotations

import contextlib
import os
import time

from .errors import OpError, os_fault
from .files import bad_record, read_json, word, write_json
from .processes import boot_id
from .shapes import PAGES, rows_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .errors import Json
    from .folder import Folder


def put_number(path: str, value: int) -> None:
    """Write a number into a sysfs file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"%d\n" % value)
    finally:
        os.close(descriptor)


class Hugepages:
    """Writes page counts so that what was there before we touched them can be given back."""

    PAUSES = (0.05, 0.2, 0.5, 1.0)
    """Seconds between attempts: the kernel may have to move memory first, and a second write often gets the rest."""

    def __init__(self, folder: Folder, sysfs_root: str) -> None:
        """Keep where the first values are recorded and what is put before each path."""
        self._folder = folder
        self._root = sysfs_root.rstrip("/")
        self._touched: dict[str, int] = {}
        self._new: set[str] = set()

    def read(self, path: str) -> int:
        """Read a count."""
        text = word(self._root + path)
        if text is None or not text.isdigit():
            raise OpError(
                "hugepages-missing",
                f"{self._root}{path} holds no page count; this host lacks that NUMA node or page size",
                "compare the profile with `ls /sys/devices/system/node/node*/hugepages` on the host",
                path=path,
            )
        return int(text)

    def grant(self, path: str, asked: int) -> int:
        """Write a count, the value before on disk first, and read back; gives what the kernel granted.

        Raises:
            OpError: ``hugepages-short`` where it granted fewer.
        """
        before = self.read(path)
        if before == asked:
            return asked
        self._remember(path, before)
        granted = self._write(path, asked)
        if granted < asked:
            raise OpError(
                "hugepages-short",
                f"{path}: asked for {asked} pages, the kernel granted {granted}",
                "free memory on that NUMA node (drop caches, stop other programs), ask for fewer pages, or reboot",
                path=path,
                asked=asked,
                granted=granted,
            )
        return granted

    def _write(self, path: str, value: int) -> int:
        granted = -1
        for pause in (*self.PAUSES, 0.0):
            try:
                put_number(self._root + path, value)
            except OSError as error:
                raise os_fault(error, self._root + path, f"write {value} to") from error
            granted = self.read(path)
            # Too few may become more when memory has been moved; pages that somebody uses stay.
            if granted == value or (granted > value and pause != self.PAUSES[0]):
                break
            time.sleep(pause)
        return granted

    def _remember(self, path: str, value: int) -> None:
        self._touched.setdefault(path, value)
        launch = read_json(self._folder.launch_file) or {}
        known = launch.setdefault("hugepages_before", [])
        if not any(entry["path"] == path for entry in known):
            known.append({"path": path, "value": value})
            self._new.add(path)
            write_json(self._folder.launch_file, launch)

    def undo(self) -> list[Json]:
        """Put back what this object changed; gives those counts that did not come back."""
        left = self._give_back(self._touched)
        kept = {entry["path"] for entry in left} | (set(self._touched) - self._new)
        self._forget(set(self._touched) - kept)
        return left

    def restore(self) -> list[Json]:
        """Put back what was there before we ever touched it.

        Raises:
            OpError: ``hugepages-short`` where a count differs afterwards; those stay on record.
        """
        launch = read_json(self._folder.launch_file) or {}
        counts = launch.get("hugepages_before", [])
        before = {entry["path"]: entry["value"] for entry in rows_of(counts, PAGES)}
        if not isinstance(counts, list) or len(before) != len(counts):
            raise bad_record(self._folder.launch_file, "its hugepages_before are no page counts")
        if launch.get("boot_id") != boot_id():
            return []  # A reboot has taken our counts away already.
        had = {path: self.read(path) for path in before}
        left = self._give_back(before)
        self._forget(set(before) - {entry["path"] for entry in left})
        if left:
            numbers = "; ".join("{path}: wanted {asked}, is {granted}".format(**entry) for entry in left)
            hint = "see who holds them: grep HugePages /sys/devices/system/node/node*/meminfo"
            raise OpError("hugepages-short", "hugepages did not come back: " + numbers, hint, left=left)
        return [{"path": path, "before": had[path], "now": value} for path, value in before.items()]

    def _give_back(self, values: dict[str, int]) -> list[Json]:
        # What frees memory goes first, so that the rest finds it.
        order = sorted(values, key=lambda path: values[path] - self.read(path))
        left: list[Json] = []
        for path in order:
            granted = self.read(path)
            if granted != values[path]:
                granted = self._write(path, values[path])
            if granted != values[path]:
                left.append({"path": path, "asked": values[path], "granted": granted})
        return left

    def _forget(self, paths: set[str]) -> None:
        launch = read_json(self._folder.launch_file)
        if launch is not None and paths:
            known = launch.get("hugepages_before", [])
            launch["hugepages_before"] = [entry for entry in known if entry["path"] not in paths]
            with contextlib.suppress(OpError):  # A full disk: a count on record that has come back does no harm.
                write_json(self._folder.launch_file, launch)
