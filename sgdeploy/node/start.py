"""The operation ``start``: everything that was asked for runs and is on record, or nothing is left of it."""

from __future__ import annotations

import signal
import threading
import time
from functools import partial

from .errors import OpError, Outcome
from .files import make_folder, read_json, remove, to_bytes, write_atomic, write_json
from .folder import FOLDER, MARK, SECRETS
from .hugepages import Hugepages
from .keeper_line import KeeperLine, keeper_gone
from .kernel_modules import load_module
from .processes import boot_id
from .stop import await_gone, signal_tree
from .survivors import Survivors, refuse_unrecorded
from .threads import wait_until

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

    from .call import Call
    from .errors import Json


KILL_PATIENCE = 5.0
"""Seconds that the kernel may take to end what a failed start killed."""


class Start:
    """One ``start``: all of it, or nothing of it."""

    def __init__(self, call: Call, parcel: bytes) -> None:
        """Keep the request."""
        self._call = call
        self._parcel = parcel
        self._folder = call.folder
        self._launch: Json = call["launch"]
        self._pages = Hugepages(self._folder, call.get("sysfs_root", ""))
        self._started: list[str] = []
        self._alive: set[str] = set()
        self._secret_files: list[Path] = []
        self._line: KeeperLine | None = None

    def run(self) -> Json:
        """Start everything in order; on any failure take back what this call did, then raise."""
        self._folder.make()
        self._refuse_if_running()
        self._write_launch("starting")
        try:
            self._start_all()
        except BaseException as error:
            left = self._take_back()
            if isinstance(error, OpError) and left:
                error.details["left"] = left
            raise
        finally:
            if self._line is not None:
                self._line.release()
        stopped_early = self._call.cancelled.is_set()
        self._write_launch("cancelled" if stopped_early else "started")
        return {"cancelled": True} if stopped_early else {}

    def _refuse_if_running(self) -> None:
        wanted = {process["id"] for process in self._call["processes"]}
        living = {ident: found for ident, found in Survivors(self._folder).of().items() if found}
        records = self._folder.records()
        foreign = {r["id"] for r in records if r["launch"] != self._launch["id"] and r["id"] in living}
        clash = sorted(foreign | (wanted & set(living)))
        if clash:
            first = living[clash[0]][0]
            others = f", and {len(clash) - 1} others" if clash[1:] else ""
            message = f"{clash[0]} already runs (pid {first.pid}{others})"
            raise OpError("already-running", message, "stop it first with `sgdeploy down`", ids=clash, pid=first.pid)
        refuse_unrecorded(self._folder, "start anything", 0.0)
        for record in records:
            if record["launch"] != self._launch["id"]:  # An earlier launch, and nothing of it lives.
                remove(self._folder.record_file(record["key"]))
                remove(self._folder.exit_file(record["key"]))

    def _write_launch(self, state: str) -> None:
        old = read_json(self._folder.launch_file) or {}
        boot = boot_id()
        before = old.get("hugepages_before", []) if old.get("boot_id") == boot else []
        more = {"wall": time.time(), "boot_id": boot, "hugepages_before": before, "state": state}
        write_json(self._folder.launch_file, {**self._launch, **more})

    def _start_all(self) -> None:
        for module in self._call.get("modules", []):
            load_module(module, self._call.get("sysfs_root", ""))
        self._set_pages(self._call.get("hugepages", []), None)
        self._line = KeeperLine(self._folder, self._parcel)
        for process in self._call["processes"]:
            if self._call.cancelled.is_set():
                return  # What has been started stays, on record.
            self._set_pages(process.get("hugepages") or [], process["id"])
            self._write_secret(process.get("secret_file"))
            self._started.append(process["id"])
            record = self._line.start(self._job(process))
            self._call.event({"started": process["id"], "pid": record["pid"]})

    def _set_pages(self, wanted: list[Json], process: str | None) -> None:
        for entry in wanted:
            granted = self._pages.grant(entry["path"], entry["value"])
            if granted > entry["value"]:
                # Pages that somebody uses cannot be taken away: worth saying, not worth stopping for.
                more = {"process": process, "path": entry["path"], "asked": entry["value"], "granted": granted}
                self._call.event({"more_hugepages": more})

    def _write_secret(self, wanted: Json | None) -> None:
        if wanted is None:
            return
        path = self._folder.inside(wanted["path"])
        self._folder.note_files([wanted["path"]])
        make_folder(path.parent)
        self._secret_files.append(path)
        write_atomic(path, to_bytes(wanted["text"]), 0o600)

    def _job(self, process: Json) -> Json:
        launch = self._launch
        marker = "{}/{}/{}/{}".format(launch["deployment"], launch["host"], launch["id"], process["id"])
        secrets = {SECRETS + name: value for name, value in (process.get("secrets") or {}).items()}
        names = {key: process[key] for key in ("id", "key", "log")}
        own = {MARK: marker, FOLDER: str(self._folder.path)}
        return {**names, "launch": launch["id"], "marker": marker, "env": {**secrets, **own}}

    def _take_back(self) -> list[str]:
        """Undo this call as far as it came; gives what could not be undone, in words."""
        left: list[str] = []
        steps = (self._kill, self._remove_files, self._give_pages_back, partial(self._write_launch, "failed"))
        for step in steps:
            outcome = Outcome()
            with outcome:
                left += step() or []
            if outcome.fault is not None:
                left.append(str(outcome.fault))
        return left

    def _kill(self) -> list[str]:
        signal_tree(self._folder, self._started, signal.SIGKILL)
        survivors = await_gone(self._folder, self._started, KILL_PATIENCE, threading.Event())
        self._alive = {survivor["id"] for survivor in survivors}
        return ["process {pid} ({title}) is still there".format(**survivor) for survivor in survivors]

    def _remove_files(self) -> None:
        """Remove what belongs to processes that are proven gone."""
        if self._line is not None:
            self._line.release()  # The keeper ends now, and has written all exit files when it is gone.
            wait_until(partial(keeper_gone, self._line.identity), 0.0 if self._alive else KILL_PATIENCE)
        for record in self._folder.records():
            if record["id"] in self._started and record["id"] not in self._alive:
                remove(self._folder.record_file(record["key"]))
                remove(self._folder.exit_file(record["key"]))
        for path in self._secret_files if not self._alive else ():
            remove(path)

    def _give_pages_back(self) -> list[str]:
        return ["{path}: wanted {asked} pages, is {granted}".format(**entry) for entry in self._pages.undo()]
