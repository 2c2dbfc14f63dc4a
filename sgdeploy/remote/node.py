"""The node helper: one file of standard-library Python (3.7 and newer) that runs on every host.

It is sent over the connection at each use and speaks JSON lines on stdin and stdout (docs/node-protocol.md). It
installs nothing, ends when its stdin ends, and never takes an engine process with it: those belong to a keeper, a
process of its own that runs this same code, started with the word ``sgdeploy-keeper``.

Three rules hold everywhere below. Nothing is signalled that is not proven to be ours. State is on disk before the
thing that it describes exists. Every wait has a bound.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import select
import signal
import stat
import sys
import threading
import time
from functools import lru_cache, partial
from pathlib import Path

TYPE_CHECKING = False
"""What type checkers take for true; to import ``typing`` for it would cost each host a sixth of the helper's start."""

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import CodeType, TracebackType
    from typing import Any

    Json = dict[str, Any]

PROTOCOL = 1
HELLO = "SGDEPLOY-NODE "
SILENCE = 60.0
"""Seconds without any request after which the helper ends by itself (the controller pings every 15 s)."""
FROZEN = 30.0
"""Seconds of standing still (stopped, a suspended machine) after which its controller has given the helper up: it ends
then, and does nothing of what has been waiting for it."""
KIB, MIB = 1 << 10, 1 << 20
CHUNK = 64 * KIB
REQUEST_LIMIT = 64 * MIB
TEXT_LIMIT = MIB
MARK, FOLDER = "SGDEPLOY_MARK", "SGDEPLOY_FOLDER"
SECRETS = "SGDEPLOY_SECRET_"
HTTP_OK = 200


# ---------------------------------------------------------------------------------------------------------- errors


class OpError(Exception):
    """An operation refused; becomes the ``error`` of its answer."""

    def __init__(self, code: str, message: str, hint: str | None = None, **details: Any) -> None:
        """Keep a stable code, a sentence with the evidence, the next step, and the numbers."""
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.details = details

    def to_json(self) -> Json:
        """Give the error as it goes over the wire."""
        return {"code": self.code, "message": str(self), "hint": self.hint, "details": self.details}


OS_CODES = {
    errno.EACCES: ("denied", "give this user the right, or choose another run folder with node.run_dir"),
    errno.EPERM: ("denied", "give this user the right, or choose another run folder with node.run_dir"),
    errno.ENOSPC: ("no-space", "free space on that file system, or choose another run folder with node.run_dir"),
    errno.EDQUOT: ("no-space", "the user's quota is used up: free space or choose another folder with node.run_dir"),
    errno.EROFS: ("read-only", "mount it writable, or choose another run folder with node.run_dir"),
    errno.ENOTDIR: ("not-a-folder", "move the file away that stands where a folder is needed"),
    errno.EEXIST: ("not-a-folder", "move the file away that stands where a folder is needed"),
    errno.EISDIR: ("is-a-folder", "move the folder away that stands where a file is needed"),
    errno.ENOENT: ("missing", None),
}


def os_fault(error: OSError, path: Path | str, doing: str) -> OpError:
    """Turn an errno into a coded refusal that names the path."""
    code, hint = OS_CODES.get(error.errno or 0, ("io-error", None))
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    reason = f"{path}: {error.strerror or error} ({name})"
    return OpError(code, f"cannot {doing} {reason}", hint, path=str(path), errno=name)


class Outcome:
    """Catches whatever ends a block and keeps it as a refusal: the last line of defence of a thread."""

    def __init__(self) -> None:
        """Begin without a fault."""
        self.fault: OpError | None = None

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Keep the error; what nobody foresaw becomes ``internal`` with its place."""
        if isinstance(error, OpError):
            self.fault = error
        elif isinstance(error, OSError):
            self.fault = os_fault(error, error.filename or "", "use")
        elif isinstance(error, KeyError):
            self.fault = OpError("bad-request", f"the request lacks {error}")
        elif error is not None:
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            line = trace.tb_lineno if trace is not None else 0
            text = f"{type(error).__name__}: {error}"
            self.fault = OpError("internal", f"the node helper failed at its line {line}: {text}", line=line)
        return True


class Later:
    """Work in a thread of its own, for which nobody waits longer than it deserves (a dead NFS server, a device)."""

    def __init__(self, work: Callable[[], Any]) -> None:
        """Start the work at once."""
        self._work = work
        self._outcome = Outcome()
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._outcome:
            self._result = self._work()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> Any:
        """Give the result; raises what the work raised, or ``no-answer`` when it takes longer."""
        self._thread.join(seconds)
        if not self.done:
            raise OpError("no-answer", f"no answer within {seconds:.0f} s")
        if self._outcome.fault is not None:
            raise self._outcome.fault
        return self._result


class Crew:
    """Small pieces of work, done one after another by one thread.

    While nothing gets done (a dead NFS server), twice as many threads go on with the rest, so that what hangs holds
    nothing else up, and what does not hang costs no thread of its own.
    """

    STUCK = 0.05

    def __init__(self, works: dict[Any, Callable[[], Json]], seconds: float) -> None:
        """Take the pieces by any key, and how long they may take together."""
        self._left = list(works.items())[::-1]
        self._count = len(works)
        self._seconds = seconds
        self._ended = threading.Event()
        self._outcomes: dict[Any, tuple[Outcome, Json]] = {}

    def run(self) -> None:
        """Work until all is done or the time is over."""
        deadline = time.monotonic() + self._seconds
        hands, done = 1, -1
        while len(self._outcomes) < self._count and time.monotonic() < deadline:
            if len(self._outcomes) == done or done < 0:
                for _ in range(min(hands, len(self._left))):
                    threading.Thread(target=self._work, daemon=True).start()
                hands *= 2
            done = len(self._outcomes)
            self._ended.wait(min(self.STUCK, max(0.0, deadline - time.monotonic())))

    def answer(self, key: Any, otherwise: Json) -> Json:
        """Give what a piece found; where it failed or hangs, what it would say then, and ``error``."""
        outcome, found = self._outcomes.get(key, (None, otherwise))
        if outcome is None:
            return {**otherwise, "error": f"no answer within {self._seconds:.0f} s"}
        return found if outcome.fault is None else {**otherwise, "error": str(outcome.fault)}

    def _work(self) -> None:
        while self._left:
            try:
                key, work = self._left.pop()
            except IndexError:  # another one took the last
                return
            outcome = Outcome()
            found: Json = {}
            with outcome:
                found = work()
            self._outcomes[key] = (outcome, found)
            if len(self._outcomes) == self._count:
                self._ended.set()


# ----------------------------------------------------------------------------------------------------------- files


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
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
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


# ------------------------------------------------------------------------------------------------------- processes


class Stat:
    """What /proc/PID/stat says; ``start`` is in clock ticks since the boot of the machine (field 22)."""

    __slots__ = ("name", "pgid", "pid", "ppid", "sid", "start", "state")

    def __init__(self, pid: int, name: str, fields: list[bytes]) -> None:
        """Take the fields that follow the name (from field 3 on)."""
        self.pid = pid
        self.name = name
        self.state = fields[0].decode()
        self.ppid, self.pgid, self.sid = (int(field) for field in fields[1:4])
        self.start = int(fields[19])


def read_stat(pid: int) -> Stat | None:
    """Read one process; None when there is none. A zombie counts as none, unless threads of it go on running."""
    data = slurp(f"/proc/{pid}/stat", 4 * KIB)
    if not data:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses: only the last one ends it.
    head, _, tail = data.rpartition(b")")
    found = Stat(pid, head.partition(b"(")[2].decode("utf-8", "replace"), tail.split())
    return None if found.state in "ZXx" and not threads_left(pid) else found


def threads_left(pid: int) -> bool:
    """Whether a process whose main thread has ended still runs others."""
    try:
        with os.scandir(f"/proc/{pid}/task") as tasks:
            return sum(1 for _ in tasks) > 1
    except OSError:
        return False


def snapshot() -> dict[int, Stat]:
    """Read all living processes that we can see."""
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    table = {found.pid: found for found in map(read_stat, pids) if found is not None}
    if os.getpid() not in table:
        raise OpError("no-proc", "/proc does not show processes, so nothing can be proven", "mount /proc")
    return table


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Give the id of this boot of the machine."""
    return word("/proc/sys/kernel/random/boot_id") or ""


def lives(pid: int | None, start: int | None) -> bool:
    """Whether exactly this process lives: the pid alone may be somebody else's by now."""
    found = None if pid is None else read_stat(pid)
    return found is not None and found.start == start


def title(pid: int, limit: int = 120) -> str:
    """Give the command line for people; values behind flags that smell of secrets are left out."""
    words = [w.decode("utf-8", "replace") for w in (slurp(f"/proc/{pid}/cmdline", 8 * KIB) or b"").split(b"\0") if w]
    hide = False
    shown: list[str] = []
    for item in words:
        flag, _, value = item.partition("=")
        secret = item.startswith("-") and re.search("key|token|secret|password", flag, re.IGNORECASE) is not None
        shown.append("***" if hide else flag + "=***" if secret and value else item)
        hide = secret and not value
    return " ".join(shown)[:limit] or (word(f"/proc/{pid}/comm") or "?")


def clean_environment() -> dict[str, str]:
    """Give the environment of processes that we start: our own without sgdeploy's variables."""
    return {key: value for key, value in os.environ.items() if not key.startswith("SGDEPLOY_")}


def send_signal(found: Stat, number: int) -> bool:
    """Signal one process after a last look at its start time; False when it was gone."""
    if not lives(found.pid, found.start):
        return False
    try:
        os.kill(found.pid, number)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise os_fault(error, f"process {found.pid} ({found.name})", "signal") from error
    return True


# ------------------------------------------------------------------------------------------------------ run folder

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@=-]*\Z")
RECORD = {"id", "key", "launch", "pid", "pgid", "sid", "start", "uid", "boot_id", "marker", "log", "offset", "keeper"}
"""What the record of a process must hold."""


def plain(name: str, what: str) -> str:
    """Insist on a file name that cannot leave its folder."""
    if not NAME.match(name):
        raise OpError("bad-request", f"{what} {name!r} is not a plain file name")
    return name


class Folder:
    """The run folder of one host and deployment."""

    def __init__(self, run_dir: str) -> None:
        """Resolve "~" here, on the host."""
        self.path = Path(run_dir).expanduser()
        if not self.path.is_absolute():
            raise OpError("bad-request", f"run_dir {run_dir!r} is not absolute")
        self.launch_file = self.path / "launch.json"
        self.plan_file = self.path / "plan.json"
        self.files_file = self.path / "files.json"

    def inside(self, name: str) -> Path:
        """Give a path below the folder; refuses one that leads out of it."""
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts:
            raise OpError("bad-request", f"{name!r} does not stay inside the run folder")
        return self.path / name

    def make(self) -> None:
        """Make the folder and those in it."""
        for name in ("", "scripts", "processes", "exits", "milestones", "logs", "keepers"):
            make_folder(self.path / name)

    def noted_files(self) -> list[str]:
        """Give the files that were put here beside our own."""
        names: list[str] = (read_json(self.files_file) or {}).get("files", [])
        return names

    def note_files(self, names: list[str]) -> None:
        """Keep the names of files that are about to be written, so that ``clear`` finds them."""
        known = self.noted_files()
        if not set(names) <= set(known):
            write_json(self.files_file, {"files": sorted({*known, *names})})

    def record_file(self, key: str) -> Path:
        """Give where the record of a process stands."""
        return self.path / "processes" / (plain(key, "key") + ".json")

    def exit_file(self, key: str) -> Path:
        """Give where the keeper writes how a process ended."""
        return self.path / "exits" / (plain(key, "key") + ".json")

    def milestones_file(self, key: str) -> Path:
        """Give where it is kept what a log has shown, for whoever looks after the log was cut."""
        return self.path / "milestones" / (plain(key, "key") + ".json")

    def records(self) -> list[Json]:
        """Read all records that are intact, in order of their names."""
        found = map(read_intact, self._listed("processes"))
        return [record for record in found if record is not None and set(record) >= RECORD]

    def damaged(self) -> list[str]:
        """Say which files of ours are damaged: what they were about can be found by the processes alone."""
        outcomes = []
        for path in (*self._listed("processes"), self.plan_file, self.launch_file):
            outcome = Outcome()
            with outcome:
                found = read_json(path)
                if found is not None and path.parent.name == "processes" and not set(found) >= RECORD:
                    raise bad_record(path, "it lacks {}".format(", ".join(sorted(RECORD - set(found)))))
            outcomes.append(outcome)
        return [str(outcome.fault) for outcome in outcomes if outcome.fault is not None]

    def records_stamp(self) -> int:
        """Give a number that changes whenever a record is written or removed."""
        try:
            return (self.path / "processes").stat().st_mtime_ns
        except OSError:
            return 0

    def keepers(self) -> list[Json]:
        """Read what the keepers of this folder wrote about themselves; what a power cut damaged vouches for nothing."""
        return [keeper for keeper in map(read_intact, self._listed("keepers")) if keeper is not None]

    def _listed(self, name: str) -> list[Path]:
        return sorted(path for path in (self.path / name).glob("*.json") if not path.name.startswith("."))

    def select(self, ids: Collection[str] | None) -> list[Json]:
        """Read the records of these processes, or of all.

        Raises:
            OpError: ``unknown-process``, naming those without a record.
        """
        records = self.records()
        if ids is None:
            return records
        unknown = sorted(set(ids) - {record["id"] for record in records})
        if unknown:
            raise OpError("unknown-process", "no record of {} in {}".format(", ".join(unknown), self.path), ids=unknown)
        return [record for record in records if record["id"] in ids]

    def ended(self, record: Json) -> Json | None:
        """Give how a process ended, if its keeper has said so: ``code`` or ``signal``, ``wall``, ``mono``."""
        found = read_intact(self.exit_file(record["key"]))
        same = found is not None and (found["pid"], found["start"]) == (record["pid"], record["start"])
        return found if same else None


def exit_json(ended: Json | None) -> Json | None:
    """Give ``{"code": 3}`` or ``{"signal": 9}`` out of what the keeper wrote."""
    return None if ended is None else {key: ended[key] for key in ("code", "signal") if key in ended}


def record_alive(record: Json) -> bool:
    """Whether the main process of a record lives; one that is just being started counts while its keeper lives."""
    if record["boot_id"] != boot_id():
        return False
    if record["pid"] is None:
        return lives(record["keeper"]["pid"], record["keeper"]["start"])
    return lives(record["pid"], record["start"])


# ------------------------------------------------------------------------------------------------------- survivors


class Survivors:
    """Everything alive that belongs to recorded processes, at one moment.

    Three proofs make a process ours: it descends from the recorded process or its keeper; it is of the recorded
    session; it carries the marker. A keeper that adopts orphans (a "subreaper") has *all* of ours below it, so while
    such a keeper lives, or after it has ended because nothing was left, a session number proves nothing: the number
    may have been given to a stranger. Only when the keeper itself was killed do we go by session, and then only for
    processes that are younger than the record, have its user, and whose session leader is not a stranger.
    """

    def __init__(self, folder: Folder, *, deep: bool = True) -> None:
        """Look once; ``deep`` also reads environments, which costs a read per process."""
        self.table = snapshot()
        self._folder = folder
        self._children: dict[int, list[int]] = {}
        for found in self.table.values():
            self._children.setdefault(found.ppid, []).append(found.pid)
        boot = boot_id()
        self._keepers = {(k["pid"], k["start"]): k for k in folder.keepers() if k["boot_id"] == boot}
        self.records = [record for record in folder.records() if record["boot_id"] == boot]
        self._not_ours = self._own_line() | {pid for pid, start in self._keepers if self._same(pid, start)}
        self.owner: dict[int, str] = {}
        for record in self.records:
            self._claim(record, self._roots(record))
        if deep or any(not self._tree_is_complete(record) for record in self.records):
            self._claim_marked()
        self._strays = self._unclaimed_by_keeper()

    def of(self, ids: Collection[str] | None = None) -> dict[str, list[Stat]]:
        """Give the living processes of these ids (None: all), main process first.

        A descendant that left its session, wiped its environment and lost its parent cannot be told apart from those
        of the keeper's other processes: it counts as soon as none of the others lives or all are asked for.
        """
        chosen = [record for record in self.records if ids is None or record["id"] in ids]
        found: dict[str, list[Stat]] = {record["id"]: [] for record in chosen}
        for pid, owner in self.owner.items():
            if owner in found:
                found[owner].append(self.table[pid])
        for keeper, pids in self._strays.items():
            mine = [record["id"] for record in chosen if self._keeper(record) == keeper]
            others = [r["id"] for r in self.records if self._keeper(r) == keeper and r["id"] not in found]
            if mine and not set(others) & set(self.owner.values()):
                found[mine[0]] += [self.table[pid] for pid in pids]
        mains = {record["pid"] for record in chosen}
        for members in found.values():
            members.sort(key=lambda member: (member.pid not in mains, member.pid))
        return found

    def unrecorded(self) -> list[Stat]:
        """Give the processes that were started from this folder and that no record here names (any more)."""
        recorded = {self._keeper(record) for record in self.records}
        strays = {keeper: set(pids) for keeper, pids in self._strays.items()}
        known = self._not_ours.union(self.owner, *(pids for keeper, pids in strays.items() if keeper in recorded))
        orphans = set().union(*(pids for keeper, pids in strays.items() if keeper not in recorded))
        path = os.fsencode(str(self._folder.path))
        orphans.update(pid for pid in set(self.table) - known if variable_of(pid, FOLDER) == path)
        return [self.table[pid] for pid in sorted(self._below(orphans) - known)]

    def _keeper(self, record: Json) -> tuple[int, int]:
        return (record["keeper"]["pid"], record["keeper"]["start"])

    def _same(self, pid: int | None, start: int | None) -> bool:
        return pid in self.table and self.table[pid].start == start

    def _own_line(self) -> set[int]:
        """This helper and its ancestors, which may have inherited somebody's marker."""
        line: set[int] = set()
        pid = os.getpid()
        while pid in self.table and pid not in line:
            line.add(pid)
            pid = self.table[pid].ppid
        return line

    def _below(self, pids: Iterable[int]) -> set[int]:
        """Give these and all their descendants."""
        found: set[int] = set()
        waiting = list(pids)
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += self._children.get(pid, ())
        return found

    def _tree_is_complete(self, record: Json) -> bool:
        """Whether the record's keeper vouches that nothing of ours is outside its tree."""
        keeper = self._keepers.get(self._keeper(record))
        if keeper is None or not keeper["subreaper"]:
            return False
        return keeper["ended"] is not None or self._same(keeper["pid"], keeper["start"])

    def _roots(self, record: Json) -> set[int]:
        """Give the main process, if it lives, and the proven members of its session."""
        pid, sid, start = record["pid"], record["sid"], record["start"]
        if pid is None:
            return set()
        roots = {pid} if self._same(pid, start) else set()
        leader = self.table.get(sid)
        if leader is not None and leader.start != start:
            return roots  # The number belongs to a stranger, so nobody of our session is left.
        members = {m.pid for m in self.table.values() if m.sid == sid and m.start >= start}
        if self._tree_is_complete(record):
            keeper = self._keeper(record)
            return roots | (members & (self._below([keeper[0]]) if self._same(*keeper) else set()))
        return roots | {member for member in members if self._user(member) == record["uid"]}

    @staticmethod
    def _user(pid: int) -> int | None:
        try:
            return Path(f"/proc/{pid}").stat().st_uid
        except OSError:
            return None

    def _claim(self, record: Json, roots: set[int]) -> None:
        for pid in self._below(roots) - self._not_ours:
            self.owner.setdefault(pid, record["id"])

    def _claim_marked(self) -> None:
        marks = {record["marker"].encode(): record for record in self.records}
        oldest = min((record["keeper"]["start"] for record in self.records), default=0)
        for found in list(self.table.values()):
            known = found.pid in self.owner or found.pid in self._not_ours
            if marks and not known and found.start >= oldest:
                record = marks.get(variable_of(found.pid, MARK))
                if record is not None:
                    self._claim(record, {found.pid})

    def _unclaimed_by_keeper(self) -> dict[tuple[int, int], list[int]]:
        strays: dict[tuple[int, int], list[int]] = {}
        for pid, start in self._keepers:
            if self._same(pid, start):
                left = self._below([pid]) - self._not_ours - set(self.owner)
                strays[pid, start] = sorted(left)
        return strays


def variable_of(pid: int, name: str) -> bytes:
    """Give a variable in the environment of a process as /proc shows it, b"" where there is none."""
    head = name.encode() + b"="
    for entry in (slurp(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(head):
            return entry[len(head) :]
    return b""


# ---------------------------------------------------------------------------------------------------------- keeper

GATE = 'IFS= read -r go && [ "$go" = start ] && exec "$BASH" "$0" </dev/null'
"""What bash runs first: it waits for the word that its record is on disk. If the keeper dies before, it ends."""
SLOT = 512
"""Bytes set aside at the start for the exit file, so that a full disk cannot swallow an exit code."""
KEEPER_BOOTSTRAP = "import marshal,sys;b=sys.stdin.buffer;exec(marshal.loads(b.read(int(b.readline()))))"


class Keeper:
    """The parent of engine processes on one host: starts them, waits for them, writes down how they ended.

    It is one small process per ``start``. It leads no session and has no terminal, so no logout reaches it; orphans of
    the engine are re-parented to it. It ends when no child and no adopted descendant is left.
    """

    def __init__(self, folder: Folder) -> None:
        """Take over an orphaned process (this one) and say so on disk."""
        self.folder = folder
        self.subreaper = adopt_orphans()
        own = read_stat(os.getpid())
        self.identity = {"pid": os.getpid(), "start": own.start if own else 0}
        self.file = folder.path / "keepers" / "{pid}-{start}.json".format(**self.identity)
        self.boot = boot_id()
        self._children: dict[int, Json] = {}
        self._waking, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waking, False)
        self._write_self(None)

    def _write_self(self, ended: float | None) -> None:
        state = {"boot_id": self.boot, "subreaper": self.subreaper, "wall": time.time(), "ended": ended}
        # No sync: after a power cut neither the keeper nor anything of it lives.
        write_json(self.file, {**self.identity, **state}, sync=False)

    def run(self) -> None:
        """Obey until the helper has no more commands or is gone; then wait for the last descendant."""
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, do_nothing)
        say(1, {"keeper": self.identity, "subreaper": self.subreaper})
        for job in self._jobs():
            outcome = Outcome()
            answer: Json = {}
            with outcome:
                answer = {"record": self._start(job)}
            say(1, answer if outcome.fault is None else {"error": outcome.fault.to_json()})
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(nothing, descriptor)
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(ChildProcessError):
            while True:
                self._ended(*os.waitpid(-1, 0))
        self._write_self(time.time())

    def _jobs(self) -> Iterator[Json]:
        """Yield commands line by line; children that end in the meantime are seen at once."""
        waiting = b""
        while True:
            ready = select.select([0, self._waking], [], [], 1.0)[0]
            if self._waking in ready:
                os.read(self._waking, CHUNK)
            self._reap()
            if 0 not in ready:
                continue
            data = os.read(0, CHUNK)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._ended(pid, status)

    def _ended(self, pid: int, status: int) -> None:
        """Write how a child ended into the place kept for it; adopted orphans only had to be reaped."""
        record = self._children.pop(pid, None)
        if record is None:
            return
        how = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}
        seen = {"wall": time.time(), "mono": time.monotonic()}
        text = json.dumps({"id": record["id"], "pid": pid, "start": record["start"], **how, **seen})
        target = self.folder.exit_file(record["key"])
        slot = target.with_suffix(".slot")
        with contextlib.suppress(OSError):
            descriptor = os.open(str(slot), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(descriptor, text.ljust(SLOT).encode())
            os.close(descriptor)
            slot.replace(target)

    def _start(self, job: Json) -> Json:
        """Start one process behind the gate; give its record, which is on disk before the process may run."""
        record_file, exit_file = self.folder.record_file(job["key"]), self.folder.exit_file(job["key"])
        log = self.folder.path / "logs" / plain(job["log"], "log")
        remove(exit_file)
        slot = exit_file.with_suffix(".slot")
        write_atomic(slot, b" " * SLOT, sync=False)
        try:
            with open_log(log) as output:
                record = {
                    **{key: job[key] for key in ("id", "key", "marker", "launch")},
                    "state": "starting",
                    "pid": None,
                    "pgid": None,
                    "sid": None,
                    "start": None,
                    "boot_id": self.boot,
                    "log": str(log),
                    "offset": output.seek(0, os.SEEK_END),
                    "wall": time.time(),
                    "uid": os.getuid(),
                    "keeper": self.identity,
                }
                write_json(record_file, record)
                return self._pass_gate(job, record, record_file, output.fileno())
        except OpError:
            for leftover in (record_file, slot):
                with contextlib.suppress(OpError):
                    remove(leftover)
            raise

    def _pass_gate(self, job: Json, record: Json, record_file: Path, output: int) -> Json:
        import subprocess

        script = self.folder.path / "scripts" / (job["key"] + ".sh")
        if not script.is_file():
            raise OpError("start-failed", f"{script} is missing", "prepare the host again", path=str(script))
        environment = {**clean_environment(), **job["env"]}
        gate, opener = os.pipe()
        try:
            child = subprocess.Popen(
                [find_bash(environment), "-c", GATE, str(script)],
                stdin=gate,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=str(self.folder.path),
                start_new_session=True,
            )
            found = read_stat(child.pid)
            start = found.start if found else 0
            ids = {"pid": child.pid, "pgid": child.pid, "sid": child.pid, "start": start}
            record = {**record, **ids, "state": "started", "wall": time.time()}
            # The Popen object is kept: its finalizer would otherwise wait for the child behind our back.
            self._children[child.pid] = {**record, "process": child}
            write_json(record_file, record)
            os.write(opener, b"start\n")
        except BrokenPipeError as error:
            raise OpError("start-failed", f"bash ended before it could start {script}", path=str(script)) from error
        except OSError as error:
            raise os_fault(error, error.filename or "bash", "start") from error
        finally:
            os.close(gate)
            os.close(opener)
        return record


def open_log(path: Path) -> Any:
    """Open a log for appending, unbuffered."""
    try:
        descriptor = os.open(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise os_fault(error, path, "open the log") from error
    return os.fdopen(descriptor, "ab", 0)


def find_program(name: str, path: str, *more: str) -> str | None:
    """Find a program in the folders of a PATH, or else in some more; None where there is none."""
    for folder in [*path.split(":"), *more]:
        program = f"{folder}/{name}"
        if folder and os.access(program, os.X_OK) and not Path(program).is_dir():
            return program
    return None


def find_bash(environment: Json) -> str:
    """Give the path of bash; not finding it is an error of its own."""
    bash = find_program("bash", environment.get("PATH", ""), "/bin", "/usr/bin", "/usr/local/bin")
    if bash is None:
        raise OpError("bash-missing", "there is no bash on this host", "install bash")
    return bash


def adopt_orphans() -> bool:
    """Ask the kernel to re-parent orphaned descendants to this process; False where that cannot be had."""
    try:
        import ctypes

        set_child_subreaper = 36
        return bool(ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def do_nothing(*_: object) -> None:
    """Handle a signal by nothing: unlike "ignore", this is not inherited by programs that we start."""


def default_signals() -> None:
    """Let programs that we start begin with default handling and nothing blocked, whatever we inherited."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.Signals:
        if number != signal.SIGPIPE and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, do_nothing)


def say(descriptor: int, value: Json) -> None:
    """Write one JSON line; a reader that is gone does not matter."""
    data = memoryview(json.dumps(value).encode() + b"\n")
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(descriptor, data) :]


def keeper_main(run_dir: str) -> None:
    """Leave the helper's family, then keep."""
    if os.fork():
        os._exit(0)
    default_signals()
    outcome = Outcome()
    with outcome:
        Keeper(Folder(run_dir)).run()
    if outcome.fault is not None:
        say(1, {"error": outcome.fault.to_json()})


class KeeperLine:
    """The helper's end of the line to a keeper that it has started."""

    ANSWER = 15.0
    """Seconds within which a keeper must answer."""

    def __init__(self, folder: Folder, code: CodeType) -> None:
        """Start a keeper and wait until it is on record."""
        import marshal
        import subprocess

        words = [sys.executable or "python3", "-I", "-S", "-u", "-c", KEEPER_BOOTSTRAP]
        try:
            self._process = subprocess.Popen(
                [*words, "sgdeploy-keeper", str(folder.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=str(folder.path),
                env=clean_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise os_fault(error, words[0], "start") from error
        body = marshal.dumps(code)
        self._send(b"%d\n" % len(body) + body)
        self.identity: Json = self._answer()["keeper"]
        self._process.wait(self.ANSWER)

    def start(self, job: Json) -> Json:
        """Have one process started; give its record.

        Raises:
            OpError: what the keeper found, or ``start-failed`` when it does not answer.
        """
        self._send(json.dumps(job).encode() + b"\n")
        record: Json = self._answer()["record"]
        return record

    def release(self) -> None:
        """Give no more commands."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _send(self, data: bytes) -> None:
        if self._process.stdin is None:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
        except OSError as error:
            raise OpError("start-failed", f"the keeper ended: {error}") from error

    def _answer(self) -> Json:
        answer = b""
        deadline = time.monotonic() + self.ANSWER
        output = self._process.stdout
        while output is not None and not answer.endswith(b"\n"):
            if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise OpError("start-failed", f"the keeper did not answer within {self.ANSWER:.0f} s")
            data = os.read(output.fileno(), CHUNK)
            if not data:
                raise OpError("start-failed", "the keeper ended without an answer")
            answer += data
        value: Json = json.loads(answer)
        if "error" in value:
            error = value["error"]
            raise OpError(error["code"], error["message"], error["hint"], **error["details"])
        return value


# ------------------------------------------------------------------------------------- hugepages and kernel modules


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
        before = {entry["path"]: entry["value"] for entry in launch.get("hugepages_before", [])}
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


def same_parameter(one: str, other: str) -> bool:
    """Whether two spellings of a module parameter mean the same (the kernel shows booleans as Y and N)."""
    spelling = {"y": "1", "true": "1", "n": "0", "false": "0"}
    return spelling.get(one.lower(), one) == spelling.get(other.lower(), other)


def load_module(module: Json, sysfs_root: str) -> None:
    """Make sure that a kernel module is loaded with these parameters; one that is loaded is never touched."""
    name, wanted = module["name"].replace("-", "_"), module["params"]
    place = "{}/sys/module/{}".format(sysfs_root.rstrip("/"), name)
    if Path(place).is_dir():
        found = {key: word(f"{place}/parameters/{key}") for key in wanted}
        differ = {k: v for k, v in found.items() if v is not None and not same_parameter(v, wanted[k])}
        if differ:
            text = ", ".join(f"{k} is {v}, wanted {wanted[k]}" for k, v in sorted(differ.items()))
            hint = f"somebody may be using it: unload it yourself (rmmod {name}), or change the profile"
            raise OpError("module-failed", f"module {name} is loaded differently: {text}", hint, loaded=differ)
        return
    if not Path(module["file"]).is_file():
        raise OpError("module-failed", "{}: there is no such module file".format(module["file"]), path=module["file"])
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
    parameters = ["{}={}".format(*item) for item in wanted.items()]
    ended = run_command(["insmod", module["file"], *parameters], 30.0, {"PATH": path})
    if ended["rc"] != 0:
        reason = ended["err"].strip() or "exit code {}".format(ended["rc"])
        raise OpError("module-failed", "insmod {}: {}".format(module["file"], reason), "see `dmesg | tail` on the host")


# ------------------------------------------------------------------------------------------------- start and stop


class Call:
    """One request while it is being worked on."""

    def __init__(self, ident: Any, arguments: Json, emit: Callable[[Json], None]) -> None:
        """Keep the arguments, and how to send events."""
        self.ident = ident
        self.arguments = arguments
        self.cancelled = threading.Event()
        self._emit = emit

    def __getitem__(self, name: str) -> Any:
        """Give an argument that must be there."""
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Give an argument that may be left out."""
        value = self.arguments.get(name)
        return default if value is None else value

    @property
    def folder(self) -> Folder:
        """The run folder that the request names."""
        return Folder(self["run_dir"])

    def event(self, value: Json) -> None:
        """Send one event of a stream."""
        self._emit({"id": self.ident, "event": value})


KILL_PATIENCE = 5.0
"""Seconds that the kernel may take to end what a failed start killed."""


class Start:
    """One ``start``: all of it, or nothing of it."""

    def __init__(self, call: Call, code: CodeType) -> None:
        """Keep the request."""
        self._call = call
        self._code = code
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
        self._line = KeeperLine(self._folder, self._code)
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


def keeper_gone(keeper: Json) -> bool:
    """Whether a keeper has ended."""
    return not lives(keeper["pid"], keeper["start"])


def wait_until(met: Callable[[], bool], seconds: float, cancelled: threading.Event | None = None) -> bool:
    """Look ten times a second until it is so; False when it was not within the time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event() if cancelled is None else cancelled
    while not met():
        if time.monotonic() >= deadline or pause.wait(0.1):
            return met()
    return True


def signal_tree(folder: Folder, ids: Collection[str] | None, number: int) -> list[int]:
    """Signal everything that belongs to these processes, and what they fork meanwhile."""
    sent: set[tuple[int, int]] = set()
    rounds = 5
    for _ in range(rounds):
        members = [m for found in Survivors(folder).of(ids).values() for m in found if (m.pid, m.start) not in sent]
        if not members:
            break
        sent |= {(member.pid, member.start) for member in members if send_signal(member, number)}
    return sorted(pid for pid, _ in sent)


def op_signal(call: Call) -> Json:
    """Signal recorded processes: the main process, its process group, or all that belongs to it."""
    folder, scope = call.folder, call["scope"]
    numbers = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "INT": signal.SIGINT}
    if call["signal"] not in numbers or scope not in ("main", "group", "tree"):
        raise OpError("bad-request", "no signal {} for scope {}".format(call["signal"], scope))
    number, records = numbers[call["signal"]], folder.select(call.get("ids"))
    if scope == "tree":
        return {"signalled": signal_tree(folder, call.get("ids"), number)}
    field = {"main": "pid", "group": "pgid"}[scope]
    wanted = {record["id"]: record[field] for record in records}
    chosen = [
        member
        for ident, members in Survivors(folder).of(call.get("ids")).items()
        for member in members
        if getattr(member, field) == wanted[ident]
    ]
    return {"signalled": [member.pid for member in chosen if send_signal(member, number)]}


def await_gone(
    folder: Folder, ids: Collection[str] | None, seconds: float, cancelled: threading.Event, scope: str = "tree"
) -> list[Json]:
    """Wait until nothing of these processes lives; gives who does."""
    left: list[Json] = []

    def gone() -> bool:
        if scope == "main":
            chosen = [r for r in folder.records() if r["pid"] is not None and (ids is None or r["id"] in ids)]
            living = {r["id"]: [r["pid"]] for r in chosen if record_alive(r)}
        else:
            living = {ident: [m.pid for m in members] for ident, members in Survivors(folder).of(ids).items()}
        left[:] = [{"id": ident, "pid": pid, "title": title(pid)} for ident, pids in living.items() for pid in pids]
        return not left

    wait_until(gone, seconds, cancelled)
    return left


def op_await_gone(call: Call) -> Json:
    """Wait until processes are proven gone."""
    folder, ids, scope = call.folder, call.get("ids"), call.get("scope", "tree")
    folder.select(ids)
    return {"survivors": await_gone(folder, ids, call["timeout"], call.cancelled, scope)}


LEAVING = 10.0
"""Seconds for processes without a record to leave by themselves, as followers do after their leader."""


def refuse_if_alive(folder: Folder, doing: str) -> None:
    """Insist that nothing of this folder lives, on record or not."""
    survivors = Survivors(folder)
    living = [(ident, m) for ident, members in survivors.of().items() for m in members]
    if living:
        ident, first = living[0]
        message = f"cannot {doing} while {len(living)} of our processes live: {ident}, pid {first.pid}"
        raise OpError("still-alive", message, "stop them first with `sgdeploy down`", pids=[m.pid for _, m in living])
    refuse_unrecorded(folder, doing, LEAVING if survivors.unrecorded() else 0.0)


def refuse_unrecorded(folder: Folder, doing: str, patience: float) -> None:
    """Insist that nothing lives that was started from this folder and has no record; we do not touch such ones."""
    left: list[Stat] = []

    def gone() -> bool:
        left[:] = Survivors(folder).unrecorded()
        return not left

    if not wait_until(gone, patience):
        pids, first = [found.pid for found in left], left[0].pid
        more = f" and {len(left) - 1} others" if left[1:] else ""
        message = f"cannot {doing}: pid {first} ({title(first)}){more} came from {folder.path}, and no record names it"
        hint = "records were removed or damaged; on the host: kill -KILL {}".format(" ".join(map(str, pids)))
        raise OpError("still-alive", message, hint, pids=pids)


def op_restore(call: Call) -> Json:
    """Give hugepages back."""
    folder = call.folder
    refuse_if_alive(folder, "restore hugepages")
    if not folder.launch_file.exists():
        return {"restored": []}
    return {"restored": Hugepages(folder, call.get("sysfs_root", "")).restore()}


def op_clear(call: Call) -> Json:
    """Remove everything but the logs and the audit trail."""
    folder = call.folder
    if call.get("ids") is not None:
        return clear_some(folder, call["ids"])
    refuse_if_alive(folder, "clear the records")
    if not folder.path.is_dir():
        return {}
    for keeper in folder.keepers():
        # It ends by itself as soon as its last child has; it must not write into what is being removed.
        wait_until(partial(keeper_gone, keeper), KILL_PATIENCE)
        found = read_stat(keeper["pid"])
        if found is not None and (found.start, boot_id()) == (keeper["start"], keeper["boot_id"]):
            send_signal(found, signal.SIGKILL)
    put_away(folder)
    return {}


def put_away(folder: Folder) -> None:
    """Remove all that was written into a folder but the logs and the audit trail; nothing of it may live."""
    shipped = folder.noted_files()
    for path in [*map(folder.inside, shipped), *folder.path.glob(".*.tmp")]:
        remove(path)
    for name in ("secrets", "scripts", "processes", "exits", "milestones", "keepers"):
        remove_tree(folder.path / name)
    for path in (folder.plan_file, folder.files_file, folder.launch_file):
        remove(path)
    # Folders go only where nothing else is in them; the last two stay, once something has run, for its log.
    parents = sorted({path.parent for path in map(folder.inside, shipped)} - {folder.path}, reverse=True)
    for parent in (*parents, folder.path / "logs", folder.path, folder.path.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()


def clear_some(folder: Folder, ids: Collection[str]) -> Json:
    """Remove what belongs to some processes only; the others of this host go on."""
    records = folder.select(ids)
    living = [ident for ident, members in Survivors(folder).of(list(ids)).items() if members]
    if living:
        names = ", ".join(living)
        raise OpError("still-alive", f"cannot clear the records of {names}: alive", ids=living)
    for record in records:
        key = record["key"]
        for path in ("secrets/%s.yaml", "scripts/%s.sh"):
            remove(folder.inside(path % key))
        remove(folder.exit_file(key))
        remove(folder.milestones_file(key))
        remove(folder.record_file(key))
    return {}


def remove_tree(path: Path) -> None:
    """Remove one of our folders with its files."""
    import shutil

    try:
        shutil.rmtree(str(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise os_fault(error, error.filename or path, "remove") from error


# ------------------------------------------------------------------------------------------- run folder operations


def op_prepare(call: Call) -> Json:
    """Write the plan, the scripts and the files; all of it, or nothing where nothing was before."""
    folder = call.folder
    fresh = not folder.plan_file.exists() and not folder.records()
    try:
        folder.make()
        # The plan first: whoever finds half of this knows by it that there is something to put away.
        write_json(folder.plan_file, call["plan"])
        write_files(folder, call.get("files", []))
        for key, text in call.get("scripts", {}).items():
            write_atomic(folder.path / "scripts" / (plain(key, "key") + ".sh"), to_bytes(text), 0o700)
    except OpError:
        if fresh:
            with contextlib.suppress(OpError):
                put_away(folder)
        raise
    return {}


def write_files(folder: Folder, files: list[Json]) -> None:
    """Write the files that come with a plan, their names on record before."""
    import base64

    folder.note_files([entry["path"] for entry in files])
    for entry in files:
        path = folder.inside(entry["path"])
        make_folder(path.parent)
        data = base64.b64decode(entry["base64"]) if "base64" in entry else to_bytes(entry["text"])
        write_atomic(path, data, int(entry.get("mode") or "0644", 8))


def op_records(call: Call) -> Json:
    """Tell what is on record, and what of it lives now."""
    folder = call.folder
    if folder.path.exists() and not os.access(str(folder.path), os.R_OK | os.X_OK):
        raise os_fault(OSError(errno.EACCES, os.strerror(errno.EACCES)), folder.path, "read the folder")
    found, survivors = folder.records(), Survivors(folder)
    members = survivors.of()
    processes = []
    for record in found:
        pids = [member.pid for member in members.get(record["id"], ())]
        now = {"alive": record_alive(record), "exit": exit_json(folder.ended(record)), "pids": pids}
        processes.append({**record, **now})
    orphans = [{"pid": found.pid, "title": title(found.pid)} for found in survivors.unrecorded()]
    return {
        "launch": read_intact(folder.launch_file),
        "plan": read_intact(folder.plan_file),
        "boot_id": boot_id(),
        "processes": processes,
        "unrecorded": orphans,
        "damaged": folder.damaged(),
    }


def op_audit(call: Call) -> Json:
    """Append one line on who did what."""
    folder = call.folder
    make_folder(folder.path)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = " ".join(("{} {}: {}".format(when, call["who"], call["what"])).split()) + "\n"
    try:
        descriptor = os.open(
            str(folder.path / "audit.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640
        )
        try:
            os.write(descriptor, to_bytes(line))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise os_fault(error, folder.path / "audit.log", "append to") from error
    return {}


class Locks:
    """Locks that end with this process at the latest: the kernel frees an flock when its holder is gone."""

    RETRY = 0.5
    """Seconds of trying again: somebody who only asks who holds the lock takes it for an instant."""

    def __init__(self) -> None:
        """Hold none."""
        self._held: dict[Path, tuple[int, list[Path]]] = {}
        self._guard = threading.Lock()

    def lock(self, call: Call) -> Json:
        """Take the lock of a run folder, and then write into it who holds it."""
        path = call.folder.path / "lock"
        with self._guard:
            if path in self._held:
                raise locked_by(path)
            made: set[Path] = set()
            descriptor = self._take(path, made)
            self._held[path] = (descriptor, sorted(made, reverse=True))
            write_owner(descriptor, {**call["owner"], HELPER: os.getpid()})
        return {}

    def _take(self, path: Path, made: set[Path]) -> int:
        """Open and lock the file. One that its last holder has just put away, with its folder, is made anew."""
        deadline = time.monotonic() + self.RETRY
        while True:
            try:
                made.update(make_folder(path.parent))
                descriptor = open_lock(path)
            except OpError as error:
                if error.code == "missing" and time.monotonic() < deadline:
                    continue
                raise
            locked = wait_until(partial(take, descriptor, fcntl.LOCK_EX), max(0.0, deadline - time.monotonic()))
            if is_at(descriptor, path) and locked:
                return descriptor
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise locked_by(path)

    def unlock(self, call: Call) -> Json:
        """Free the lock; nothing happens where we do not hold it."""
        with self._guard:
            self._release(call.folder.path / "lock")
        return {}

    def release_all(self) -> None:
        """Free every lock, at the end of the helper."""
        with self._guard:
            for path in list(self._held):
                self._release(path)

    def _release(self, path: Path) -> None:
        if path not in self._held:
            return
        descriptor, made = self._held.pop(path)
        write_owner(descriptor, {})
        with contextlib.suppress(OSError):
            if [entry.name for entry in path.parent.iterdir()] == [path.name]:
                # Nothing was ever done here: not even the folders stay that were made for the lock.
                path.unlink()
                for folder in made or [path.parent]:
                    folder.rmdir()
        os.close(descriptor)

    @staticmethod
    def owner(call: Call) -> Json:
        """Give who holds the lock, only if it is truly held."""
        path = call.folder.path / "lock"
        try:
            descriptor = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return {"owner": None}
        except OSError as error:
            raise os_fault(error, path, "open the lock") from error
        try:
            free = take(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
        return {"owner": None if free else read_owner(path)[0]}


HELPER = "helper"
"""In a lock file: the pid of the node helper that holds it, beside what its controller says of itself."""
OWNER_SPACE = 1024
"""Bytes that a lock file keeps, so that its next owner can write itself down on a full disk too."""


def open_lock(path: Path) -> int:
    """Open a lock file; for reading only where the file system has become so, which locks just as well."""
    try:
        return os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise os_fault(error, path, "open the lock") from error
        return os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def write_owner(descriptor: int, owner: Json) -> None:
    """Write who holds a lock. It is for people: where it cannot be written, the lock holds all the same."""
    text = json.dumps(owner).encode().ljust(OWNER_SPACE)
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))


def locked_by(path: Path) -> OpError:
    """Say who holds a lock."""
    owner, helper = read_owner(path)
    who = "{}@{} (pid {})".format(*(owner.get(key, "?") for key in ("user", "host", "pid")))
    hint = "wait until that command has ended"
    return OpError("locked", f"locked by {who}", hint, owner=owner, helper=helper)


def take(descriptor: int, kind: int) -> bool:
    """Try to lock without waiting."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_owner(path: Path) -> tuple[Json, int | None]:
    """Read who wrote itself into a lock file, and which node helper holds it for them."""
    try:
        owner = json.loads(slurp(str(path), CHUNK) or b"")
    except ValueError:
        owner = {}
    owner = owner if isinstance(owner, dict) else {}
    return owner, owner.pop(HELPER, None)


# ------------------------------------------------------------------------------------------------- logs and watch

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
BREAKS = re.compile(rb"[\r\n]+")
# The engine writes its keys into its own log: server_args={…, 'api_key': '…', …}. They stay on the node.
KEYS = re.compile(r"""((?:api[_-]key|password)['"]?\s*[:=]\s*)("[^"]*"|'[^']*')""", re.IGNORECASE)
LINE_SHOWN, TAIL_LINE, TAIL_LINES = 200, 2000, 20


def clean(line: bytes, limit: int = CHUNK) -> str:
    """Make a line of a log fit to be shown: no colours, control characters or keys, invalid UTF-8 replaced."""
    text = line[: 4 * limit].decode("utf-8", "replace")
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    return KEYS.sub(r"\1'[hidden]'", UNPRINTABLE.sub("", text)).rstrip()[:limit]


def lines_of(data: bytes) -> list[bytes]:
    """Split into lines; of a line that was rewritten by carriage returns only the last state counts."""
    return [line.rstrip(b"\r").rpartition(b"\r")[2] for line in data.split(b"\n")]


def read_range(path: Path, begin: int, limit: int) -> tuple[bytes, int]:
    """Read part of a file; gives the bytes and the size of the file."""
    with path.open("rb", buffering=0) as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(min(begin, size))
        data = b""
        while len(data) < limit:
            part = stream.read(min(CHUNK, limit - len(data)))
            if not part:
                break
            data += part
        return data, size


def read_tail(path: Path, offset: int, count: int, limit: int = CHUNK) -> list[str]:
    """Give the last lines written after an offset; the start of a line that is too long is left out."""
    try:
        size = path.stat().st_size
        begin = max(offset if offset <= size else 0, size - limit)
        data, _ = read_range(path, begin, limit)
    except OSError:
        return []
    shown = [clean(line, TAIL_LINE) for line in lines_of(data)]
    return [line for line in shown if line][-count:]


class LogScan:
    """Follows one log from an offset: what was reached, the last line, how much was written.

    At most one chunk and one unfinished line are in memory. Only the first 64 KiB of a line are searched.
    """

    def __init__(
        self, path: Path, offset: int, patterns: list[tuple[str, re.Pattern[str]]], known: Collection[str] = ()
    ) -> None:
        """Look for each pattern once, in lines after the offset; those that are known were found before."""
        self._path = path
        self._position = offset
        self._patterns = patterns
        self._open = {name: pattern for name, pattern in patterns if name not in known}
        self._stream: Any = None
        self._unfinished = b""
        self._skipping = False
        self._last = b""
        self.bytes = 0
        self.behind = False

    @property
    def reached(self) -> list[str]:
        """Names found so far, in the order of the list."""
        return [name for name, _ in self._patterns if name not in self._open]

    @property
    def line(self) -> str:
        """The last line that says something."""
        return clean(self._unfinished, LINE_SHOWN) or clean(self._last, LINE_SHOWN)

    def pull(self, seconds: float) -> None:
        """Read what is new, for about so many seconds at most."""
        deadline = time.monotonic() + seconds
        before = self.bytes
        self.behind = False
        try:
            self._follow()
            while self._stream is not None:
                chunk = self._stream.read(CHUNK)
                if not chunk:
                    break
                self._position += len(chunk)
                self.bytes += len(chunk)
                self._feed(chunk)
                if time.monotonic() > deadline:
                    self.behind = True
                    break
        except OSError:
            self.close()
        if self.bytes != before:
            self._search(self._unfinished)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _follow(self) -> None:
        """Open the log; begin again where it was cut, or where another file with content took its name."""
        if self._stream is not None:
            size = os.fstat(self._stream.fileno()).st_size
            if size == self._position and self._replaced():
                self.close()
                self._position = 0
            elif size < self._position:
                self._restart(0)
        if self._stream is None:
            self._stream = self._path.open("rb", buffering=0)
            size = os.fstat(self._stream.fileno()).st_size
            self._restart(self._position if self._position <= size else 0)

    def _replaced(self) -> bool:
        try:
            named = self._path.stat()
        except OSError:
            return False
        return named.st_size > 0 and named.st_ino != os.fstat(self._stream.fileno()).st_ino

    def _restart(self, position: int) -> None:
        self._position = position
        self._stream.seek(position)
        self._unfinished, self._skipping = b"", False

    def _feed(self, chunk: bytes) -> None:
        if self._skipping:
            if b"\n" not in chunk and b"\r" not in chunk:
                return
            found = BREAKS.search(chunk)
            chunk, self._skipping = chunk[found.end() if found else len(chunk) :], False
        *lines, self._unfinished = BREAKS.split(self._unfinished + chunk)
        for line in lines:
            self._search(line)
        self._last = next((line for line in reversed(lines) if line.strip()), self._last)[:CHUNK]
        if len(self._unfinished) > CHUNK:
            self._last, self._unfinished = self._unfinished[:CHUNK], b""
            self._skipping = True
            self._search(self._last)

    def _search(self, line: bytes) -> None:
        if not self._open or not line:
            return
        text = clean(line)
        for name in [name for name, pattern in self._open.items() if pattern.search(text)]:
            del self._open[name]


class Probe:
    """Asks the health path of one process in a thread, never holding the others up: once a second, or when hurried."""

    LIMIT = 25.0
    """Seconds: a hung engine takes 20 s to say so."""

    def __init__(self, target: Json) -> None:
        """Keep address, port, path and headers."""
        self._target = target
        self._running: Later | None = None
        self._begun = -1.0
        self._hurried = False
        self.last: Json | None = None

    def hurry(self) -> None:
        """Ask again without waiting for the next second: what the process just said may have changed its answer."""
        self._hurried = True

    def poll(self, now: float) -> None:
        """Take an answer if there is one, and ask again if it is time."""
        if self._running is not None:
            late = now - self._begun > self.LIMIT
            if not self._running.done and not late:
                return
            self.last = {"error": "timeout", "seconds": self.LIMIT} if late else self._running.wait(1.0)
            self._running = None
        if self._hurried or self._begun < 0 or now - self._begun >= 1.0:
            self._hurried = False
            self._begun = now
            self._running = Later(self._ask)

    def _ask(self) -> Json:
        target = self._target
        begin = time.monotonic()
        where = (target["address"], target["port"])
        answer = http_request(where, "GET", target["path"], target.get("headers") or {}, None, self.LIMIT)
        kept = {key: answer[key] for key in ("code", "error") if answer[key] is not None}
        return {**kept, "seconds": round(time.monotonic() - begin, 3)}


class Watched:
    """One process under watch."""

    EXIT_WAIT = 1.0
    """Seconds that a keeper gets to write how a process ended before its end is reported without."""

    def __init__(
        self, folder: Folder, record: Json, patterns: list[tuple[str, re.Pattern[str]]], http: Json | None
    ) -> None:
        """Begin at the offset where this run's part of the log begins."""
        self.record = record
        self.pids: int | None = None
        self._folder = folder
        self._milestones = folder.milestones_file(record["key"])
        self._scan = LogScan(Path(record["log"]), record["offset"], patterns, self._known())
        self._probe = None if http is None else Probe(http)
        self._missing_since: float | None = None
        self._dead: Json | None = None
        self._sent: Json = {}
        self._sent_at = 0.0

    @property
    def behind(self) -> bool:
        """Whether more of the log was there than one look may read."""
        return self._scan.behind

    def close(self) -> None:
        """Close the log."""
        self._scan.close()

    def _known(self) -> list[str]:
        """Give what this very process is known to have reached: its log may have been cut or removed since."""
        found = read_intact(self._milestones)
        if found is None or self.record["pid"] is None or any(found.get(k) != self.record[k] for k in ("pid", "start")):
            return []
        return list(found.get("reached", []))

    def _keep(self) -> None:
        """Keep what was reached, where there is space; it stands in the log as well."""
        who = {key: self.record[key] for key in ("pid", "start")}
        with contextlib.suppress(OpError):
            write_json(self._milestones, {**who, "reached": self._scan.reached}, sync=False)

    def observe(self, now: float, seconds: float) -> Json | None:
        """Look; give an observation if something changed."""
        alive = self._alive(now)
        reached = len(self._scan.reached)
        self._scan.pull(seconds if alive else 10 * seconds)
        if len(self._scan.reached) > reached:
            self._keep()
        if not alive and self._dead is None:
            self._dead = self._last_words()
        if alive and self._probe is not None:
            if len(self._scan.reached) > reached:
                self._probe.hurry()
            self._probe.poll(now)
        seen = {
            "process": self.record["id"],
            "alive": alive,
            "exit": None,
            "died_ago": None,
            "died_at": None,
            "milestones": self._scan.reached,
            "log_bytes": self._scan.bytes,
            "line": self._scan.line,
            "http": None if self._probe is None else self._probe.last,
            "pids": self.pids,
            "tail": None,
            "rebooted": False,
            **(self._dead or {}),
        }
        if not self._changed(seen, now):
            return None
        self._sent, self._sent_at = seen, now
        return seen

    def _changed(self, seen: Json, now: float) -> bool:
        slow = {"log_bytes", "line", "died_ago", "died_at", "tail", "http"}
        before, after = self._sent.get("http") or {}, seen["http"] or {}
        if any(before.get(key) != after.get(key) for key in ("code", "error")):
            return True
        if any(seen[key] != self._sent.get(key, seen) for key in seen if key not in slow):
            return True
        grown = (seen["log_bytes"], seen["line"]) != (self._sent.get("log_bytes"), self._sent.get("line"))
        return grown and now - self._sent_at >= 1.0

    def _alive(self, now: float) -> bool:
        if self._dead is not None:
            return False
        if record_alive(self.record):
            return True
        self._missing_since = now if self._missing_since is None else self._missing_since
        told = self._folder.ended(self.record) is not None
        keeper = self.record["keeper"]
        return not told and now - self._missing_since < self.EXIT_WAIT and lives(keeper["pid"], keeper["start"])

    def _last_words(self) -> Json:
        ended = self._folder.ended(self.record)
        ago = None if ended is None else round(max(0.0, time.monotonic() - ended["mono"]), 3)
        tail = read_tail(Path(self.record["log"]), self.record["offset"], TAIL_LINES)
        wall = None if ended is None else ended["wall"]
        rebooted = self.record["boot_id"] != boot_id()
        return {"exit": exit_json(ended), "died_ago": ago, "died_at": wall, "tail": tail, "rebooted": rebooted}


class Watch:
    """Looks at all processes of a folder again and again, and tells what changed."""

    HEARTBEAT, RELOAD, COUNT = 2.0, 1.0, 2.0
    """Seconds between heartbeats, looks for records (a new one is seen at once), counts of descendants."""
    READ_SHARE = 0.02
    """Seconds per look that one log with a backlog may take."""

    def __init__(self, call: Call) -> None:
        """Compile all patterns; a wrong one is refused at once."""
        self._call = call
        self._folder = call.folder
        self._ids: Collection[str] | None = call.get("ids")
        self._interval = max(0.05, float(call.get("interval", 0.2)))
        self._patterns = {
            ident: [(name, compile_pattern(name, pattern)) for name, pattern in listed]
            for ident, listed in call.get("milestones", {}).items()
        }
        self._watched: dict[str, Watched] = {}
        self._folder.select(self._ids)

    def run(self) -> Json:
        """Go on until cancelled."""
        begin = time.monotonic()
        beat, reload, count = begin, begin, begin
        known = -1
        try:
            while not self._call.cancelled.is_set():
                now = time.monotonic()
                stamp = self._folder.records_stamp()
                if stamp != known or now >= reload:
                    self._reload()
                    known, reload = stamp, now + self.RELOAD
                if now >= count:
                    self._count()
                    # On a host with very many processes the count itself must stay below a hundredth of the time.
                    count = now + max(self.COUNT, 100 * (time.monotonic() - now))
                seen = [watched.observe(now, self.READ_SHARE) for watched in self._watched.values()]
                changed = [observation for observation in seen if observation is not None]
                if changed:
                    self._call.event({"observations": changed})
                if now >= beat:
                    self._call.event({"heartbeat": round(now - begin, 1)})
                    beat = now + self.HEARTBEAT
                behind = any(watched.behind for watched in self._watched.values())
                next_look = now + (0.0 if behind else self._interval)
                self._call.cancelled.wait(max(0.01, next_look - time.monotonic()))
        finally:
            for watched in self._watched.values():
                watched.close()
        return {}

    def _reload(self) -> None:
        for record in self._folder.records():
            ident = record["id"]
            known = self._watched.get(ident)
            same = known is not None and known.record == record
            if not same and (self._ids is None or ident in self._ids):
                if known is not None:
                    known.close()
                http = self._call.get("http", {}).get(ident)
                self._watched[ident] = Watched(self._folder, record, self._patterns.get(ident, []), http)

    def _count(self) -> None:
        for ident, members in Survivors(self._folder, deep=False).of(list(self._watched)).items():
            self._watched[ident].pids = len(members)


def compile_pattern(name: str, pattern: str) -> re.Pattern[str]:
    """Compile a milestone."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OpError("bad-request", f"milestone {name} is no regular expression: {error}") from error


def op_logs(call: Call) -> Json:
    """Give the end of logs, or what was added since an offset."""
    folder = call.folder
    offsets = call.get("since_offset")
    records = {record["id"]: record for record in folder.select(call.get("ids"))}
    if not records and call.get("ids") is None:  # After `clear` only the files are left.
        records = {path.stem: {"log": str(path), "offset": 0} for path in sorted(folder.path.glob("logs/*.log"))}
    logs = {}
    for ident, record in records.items():
        path = Path(record["log"])
        since = offsets.get(ident) if isinstance(offsets, dict) else offsets
        try:
            if since is None:
                size = path.stat().st_size
                lines = read_tail(path, record["offset"], call.get("tail", TAIL_LINES), TEXT_LIMIT)
            else:
                data, _ = read_range(path, since, TEXT_LIMIT)
                size = since + len(data)
                lines = [clean(line) for line in lines_of(data)]
                lines = lines[:-1] if lines[-1:] == [""] else lines
        except OSError:
            lines, size = [], 0
        logs[ident] = {"path": str(path), "lines": lines, "size": size}
    return {"logs": logs}


# ------------------------------------------------------------------------------------------------------------ HTTP


def at_once(response: Any) -> bytes:
    """Read an answer to its end, at most as much as anybody wants to see."""
    data: bytes = response.read(TEXT_LIMIT)
    return data


def http_request(
    where: tuple[str, int],
    method: str,
    path: str,
    headers: Json,
    body: bytes | None,
    seconds: float,
    read: Callable[[Any], bytes] = at_once,
) -> Json:
    """Ask over HTTP, straight, without proxies; never raises: ``code``, ``body`` (as ``read`` reads it), ``error``."""
    import http.client

    connection = http.client.HTTPConnection(where[0].strip("[]"), where[1], timeout=seconds)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return {"code": response.status, "body": read(response), "error": None}
    except (OSError, http.client.HTTPException) as error:
        return {"code": None, "body": b"", "error": why_no_answer(error)}
    except ValueError:  # Its text may hold a key.
        return {"code": None, "body": b"", "error": "a header or the path holds characters that HTTP forbids"}
    finally:
        connection.close()


def why_no_answer(error: Exception) -> str:
    """Give ``refused``, ``timeout``, ``reset``, or the error in words."""
    # By name, since before Python 3.10 the time-out of a socket was no TimeoutError.
    names = {"ConnectionRefusedError": "refused", "ConnectionResetError": "reset"}
    names.update({"timeout": "timeout", "TimeoutError": "timeout"})
    name = type(error).__name__
    return names.get(name) or f"{name}: {error}"


def put(
    call: Call, method: str, path: str, question: Any, seconds: float, read: Callable[[Any], bytes] = at_once
) -> Json:
    """Put a question in JSON to the server that a request names, with its key; as ``http_request``, and bounded."""
    headers = {"Content-Type": "application/json"}
    if call.get("api_key"):
        headers["Authorization"] = "Bearer " + call["api_key"]
    body = None if question is None else json.dumps(question).encode()
    ask = partial(http_request, (call["address"], call["port"]), method, path, headers, body, seconds, read)
    try:
        answer: Json = Later(ask).wait(seconds + 1.0)
    except OpError:
        return {"code": None, "body": b"", "error": "timeout"}
    return answer


class Stopwatch:
    """Reads a streamed answer and notes when its first text came."""

    def __init__(self) -> None:
        """Start to count."""
        self._begin = time.monotonic()
        self.first: float | None = None

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return round(time.monotonic() - self._begin, 3)

    def read(self, response: Any) -> bytes:
        """Read an answer line by line, as far as anybody wants to see it."""
        lines, size = [], 0
        for line in iter(partial(response.readline, TEXT_LIMIT), b""):
            if self.first is None and streamed_text(line):
                self.first = self.seconds
            lines.append(line)
            size += len(line)
            if size > TEXT_LIMIT:
                break
        return b"".join(lines)


def op_complete(call: Call) -> Json:
    """Ask for a completion on this host; whatever comes back is told, not raised."""
    seconds = float(call.get("timeout", 60.0))
    question = {"model": call["model"], "prompt": call["prompt"], "max_tokens": call["max_tokens"], "temperature": 0}
    if call.get("stream"):
        question.update({"stream": True, "stream_options": {"include_usage": True}})
    watch = Stopwatch()
    answer = put(call, "POST", "/v1/completions", question, seconds, watch.read)
    text, tokens, error = "", 0, answer["error"]
    if answer["code"] is not None and answer["code"] != HTTP_OK:
        start = clean(b" ".join(answer["body"].split()), 300)
        error = "HTTP {}: {}".format(answer["code"], start or "empty body")
    elif error is None:
        streamed = answer["body"].lstrip().startswith(b"data:")
        text, tokens, error = (read_stream if streamed else read_completion)(answer["body"])
    return {
        "status": answer["code"],
        "tokens": tokens,
        "text": text,
        "seconds": watch.seconds,
        "first_token": watch.first,
        "error": error,
    }


def op_http(call: Call) -> Json:
    """Ask one question over HTTP on this host (a router's workers, an engine's own view); never raises."""
    seconds = float(call.get("timeout", 10.0))
    answer = put(call, call.get("method", "GET"), call["path"], call.get("body"), seconds)
    return {"status": answer["code"], "body": answer["body"].decode("utf-8", "replace"), "error": answer["error"]}


def read_completion(body: bytes) -> tuple[str, int, str | None]:
    """Take text and number of tokens out of an answer; the text is counted where the server did not count."""
    try:
        answer = json.loads(body)
        text = str(answer["choices"][0]["text"])
        counted = (answer.get("usage") or {}).get("completion_tokens")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", 0, "the answer is no completion: " + clean(body, 300)
    return text, counted if isinstance(counted, int) else len(text.split()) or int(bool(text)), None


def streamed_chunk(line: bytes) -> Json:
    """Take the JSON out of a line of a stream (server-sent events); {} where there is none."""
    try:
        chunk = json.loads(line[len(b"data:") :]) if line.startswith(b"data:") else {}
    except (ValueError, RecursionError):
        return {}
    return chunk if isinstance(chunk, dict) else {}


def streamed_text(line: bytes) -> str:
    """Take the text out of a line of a stream."""
    try:
        return str(streamed_chunk(line)["choices"][0]["text"] or "")
    except (LookupError, TypeError):
        return ""


def read_stream(body: bytes) -> tuple[str, int, str | None]:
    """Take text and number of tokens out of a streamed answer; pieces are counted where the server did not count."""
    pieces, counted = [], None
    for line in body.splitlines():
        chunk = streamed_chunk(line)
        if chunk.get("error"):
            return "", 0, "the stream ended with an error: " + clean(line, 300)
        pieces.append(streamed_text(line))
        usage = chunk.get("usage")
        counted = usage.get("completion_tokens") if isinstance(usage, dict) else counted
    text = "".join(pieces)
    return text, counted if isinstance(counted, int) else sum(map(bool, pieces)), None


# ---------------------------------------------------------------------------------------------------- facts, ports


def run_command(argv: list[str], seconds: float, environment: dict[str, str] | None = None) -> Json:
    """Run a program for at most so long and keep at most 1 MiB of each output: ``rc``, ``out``, ``err``."""
    import subprocess

    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**clean_environment(), "LC_ALL": "C", **(environment or {})},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return {"rc": 127, "out": "", "err": "{}: {}".format(argv[0] if argv else "", error)}
    deadline = time.monotonic() + seconds
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    texts, open_still = collect([s.fileno() for s in streams], deadline, lambda: process.poll() is not None)
    late = False
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        late = True
    if late or open_still:  # Whoever holds the pipes open is of its group, so the number is still its own.
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    for stream in streams:
        stream.close()
    out, err = (bytes(text).decode("utf-8", "replace") for text in texts)
    if late:
        return {"rc": 124, "out": out, "err": err + f"\nno end within {seconds:.0f} s", "timed_out": True}
    return {"rc": process.returncode, "out": out, "err": err}


def collect(descriptors: list[int], deadline: float, ended: Callable[[], bool]) -> tuple[list[bytearray], bool]:
    """Read from pipes until they end, or the process has ended and nothing more comes, or it is too late.

    Gives what was read, and whether a pipe is still open at its other end.
    """
    texts = {descriptor: bytearray() for descriptor in descriptors}
    left = set(descriptors)
    while left and time.monotonic() < deadline:
        ready = select.select(list(left), [], [], 0.1)[0]
        for descriptor in ready:
            data = os.read(descriptor, CHUNK)
            if not data:
                left.discard(descriptor)
            texts[descriptor] += data[: max(0, TEXT_LIMIT - len(texts[descriptor]))]
        if not ready and ended():
            break
    return list(texts.values()), bool(left)


GATHER_COMMAND, GATHER_LOOK = 10.0, 5.0
MATCHES = 4096
"""At most so many files for one pattern."""


def op_gather(call: Call) -> Json:
    """Read facts; each part on its own, so that one that hangs costs only itself."""
    commands = {n: Later(partial(run_command, list(a), GATHER_COMMAND)) for n, a in call.get("commands", {}).items()}
    kinds = {"files": read_files, "stat": look_at, "space": space_at, "programs": look_for}
    asked = {kind: list(dict.fromkeys(call.get(kind, []))) for kind in kinds}
    works: dict[Any, Callable[[], Json]] = {}
    for kind, whats in asked.items():
        works.update({(kind, what): partial(kinds[kind], what) for what in whats})
    crew = Crew(works, GATHER_LOOK)
    crew.run()

    def answers(kind: str, otherwise: Json) -> Json:
        return {what: crew.answer((kind, what), otherwise) for what in asked[kind]}

    texts: Json = {}
    for found in answers("files", {}).values():
        texts.update({path: text for path, text in found.items() if path != "error"})
    variables = {name.lower() for name in call.get("environ", [])}
    return {
        "machine": {"arch": os.uname().machine, "page_size": os.sysconf("SC_PAGE_SIZE")},
        "environ": {name: value for name, value in os.environ.items() if name.lower() in variables},
        "files": texts,
        "stat": answers("stat", GONE),
        "space": answers("space", {"total": 0, "free": 0, "writable": False, "inodes_free": 0, "nearest": None}),
        "programs": {name: found.get("path") for name, found in answers("programs", {}).items()},
        "commands": {name: work.wait(GATHER_COMMAND + 3.0) for name, work in commands.items()},
    }


def look_for(name: str) -> Json:
    """Find a program as a session of root would: the folders that only root's PATH has come last."""
    return {"path": find_program(name, os.environ.get("PATH", ""), "/usr/sbin", "/sbin")}


def read_files(pattern: str) -> dict[str, str]:
    """Read regular files by path or pattern; those that cannot be read are left out."""
    path = Path(pattern).expanduser()
    found: Iterable[Path] = [path]
    if re.search(r"[*?\[]", pattern):
        found = sorted(Path("/").glob(str(path).lstrip("/")))[:MATCHES]
    texts = {}
    for match in found:
        data = slurp(str(match)) if match.is_file() else None
        if data is not None:
            texts[pattern if match is path else str(match)] = data.decode("utf-8", "replace")
    return texts


KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISBLK, "block-device"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)


GONE = {"exists": False, "kind": None, "mode": None, "executable": False, "readable": False}


def look_at(name: str) -> Json:
    """Tell what a path is."""
    path = Path(name).expanduser()
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return GONE if error.errno == errno.ENOENT else {**GONE, "error": error.strerror}
    kind = next((kind for test, kind in KINDS if test(mode)), "other")
    bits = f"{stat.S_IMODE(mode):04o}"
    can = {"executable": os.access(str(path), os.X_OK), "readable": os.access(str(path), os.R_OK)}
    return {"exists": True, "kind": kind, "mode": bits, **can}


def space_at(name: str) -> Json:
    """Tell how much space there is where a path is, or would be."""
    nearest = Path(name).expanduser()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    found = os.statvfs(str(nearest))
    writable = os.access(str(nearest), os.W_OK | os.X_OK) and nearest.is_dir() and not found.f_flag & os.ST_RDONLY
    sizes = {"total": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}
    # Some file systems (btrfs, some NFS) count no inodes at all; null then, not "none left".
    inodes = found.f_favail if found.f_files else None
    return {**sizes, "writable": writable, "inodes_free": inodes, "nearest": str(nearest)}


class Listener:
    """A TCP socket that listens: its address in numbers ("" for all), port, and inode."""

    __slots__ = ("address", "inode", "port")

    def __init__(self, address: str, port: int, inode: int) -> None:
        """Keep all three."""
        self.address = address
        self.port = port
        self.inode = inode


def listeners() -> list[Listener]:
    """Read all listening TCP sockets of this network namespace."""
    import ipaddress

    found = []
    listening = "0A"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (slurp(table, 32 * MIB) or b"").decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] != listening:
                continue
            host, _, port = fields[1].partition(":")
            # Each 32-bit word stands in the byte order of the machine.
            words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
            address = plain_address(str(ipaddress.ip_address(b"".join(words))))
            found.append(Listener(address, int(port, 16), int(fields[9])))
    return found


def plain_address(text: str) -> str:
    """Give an address in one spelling, "" for "all addresses"; ValueError for a name."""
    import ipaddress

    address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return "" if address.is_unspecified else str(address)


def plain_addresses(text: str) -> set[str]:
    """Give an address, or all that a name leads to, of both families; a name that nobody knows may be any address."""
    import socket

    try:
        return {plain_address(text)}
    except ValueError:
        with contextlib.suppress(OpError):
            found = Later(partial(socket.getaddrinfo, text, None, 0, socket.SOCK_STREAM)).wait(GATHER_LOOK)
            return {plain_address(str(each[4][0])) for each in found}
        return {""}


def socket_owners(inodes: set[int]) -> dict[int, int]:
    """Find which process holds each socket; those of other users are not ours to see."""
    owners: dict[int, int] = {}
    if not inodes:
        return owners
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    found = descriptor.stat()
                    if stat.S_ISSOCK(found.st_mode) and found.st_ino in inodes:
                        owners.setdefault(found.st_ino, pid)
    return owners


def op_ports(call: Call) -> Json:
    """Tell which of these addresses and ports somebody listens on."""
    everybody = listeners()
    hits: list[tuple[Json, int]] = []
    for wanted in call["ports"]:
        addresses: set[str] = set()
        for listener in everybody:
            if listener.port == wanted["port"]:
                addresses = addresses or plain_addresses(wanted["address"])
                if not listener.address or addresses & {"", listener.address}:
                    hits.append((wanted, listener.inode))
    owners = socket_owners({inode for _, inode in hits})
    listening = []
    for wanted, inode in hits:
        pid = owners.get(inode)
        listening.append({**wanted, "pid": pid, "command": None if pid is None else title(pid)})
    return {"listening": listening}


# ---------------------------------------------------------------------------------------------------------- server


class Server:
    """Reads requests from stdin, works on each in a thread, writes answers to stdout."""

    def __init__(self, code: CodeType) -> None:
        """Keep our own code, which keepers are made of."""
        self._code = code
        self._locks = Locks()
        self._calls: dict[Any, Call] = {}
        self._writing = threading.Lock()
        self._changing = threading.Lock()
        self._heard = time.monotonic()
        self._awake = since_boot()
        self._operations: dict[str, Callable[[Call], Json]] = {
            "ping": lambda _: {"time": time.time()},
            "cancel": self._cancel,
            "gather": op_gather,
            "ports": op_ports,
            "lock": self._locks.lock,
            "unlock": self._locks.unlock,
            "lock_owner": self._locks.owner,
            "prepare": self._alone(op_prepare),
            "records": op_records,
            "start": self._alone(lambda call: Start(call, self._code).run()),
            "watch": lambda call: Watch(call).run(),
            "signal": op_signal,
            "await_gone": op_await_gone,
            "restore": self._alone(op_restore),
            "clear": self._alone(op_clear),
            "logs": op_logs,
            "complete": op_complete,
            "http": op_http,
            "audit": op_audit,
        }

    def run(self) -> None:
        """Say hello, then serve until stdin ends; a controller that is silent for too long counts as gone."""
        self._write(None, HELLO + json.dumps(hello()))
        threading.Thread(target=self._end_when_silent, daemon=True).start()
        while True:
            line = sys.stdin.buffer.readline(REQUEST_LIMIT)
            self._end_if_frozen()
            self._heard = time.monotonic()
            if not line.endswith(b"\n"):
                break
            outcome = Outcome()
            with outcome:
                self._take(line)
            if outcome.fault is not None:
                self._write(None, json.dumps({"id": None, "ok": False, "error": outcome.fault.to_json()}))
        self._locks.release_all()

    def _take(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            call = Call(request.pop("id", None), request, partial(self._send))
            work = self._operations.get(request["op"])
        except (ValueError, TypeError, AttributeError) as error:
            raise OpError("bad-request", f"a request is one JSON object per line: {error}") from error
        if work is None:
            work = self._unknown
        self._calls[call.ident] = call
        threading.Thread(target=self._answer, args=(call, work), daemon=True).start()

    def _answer(self, call: Call, work: Callable[[Call], Json]) -> None:
        outcome = Outcome()
        result: Json = {}
        with outcome:
            result = work(call)
        self._calls.pop(call.ident, None)
        answer: Json = {"id": call.ident, "ok": True, "result": result}
        if outcome.fault is not None:
            answer = {"id": call.ident, "ok": False, "error": outcome.fault.to_json()}
        self._send(answer)

    def _alone(self, work: Callable[[Call], Json]) -> Callable[[Call], Json]:
        """Let what changes the run folder happen one after the other."""

        def run(call: Call) -> Json:
            patience = 60.0
            if not self._changing.acquire(timeout=patience):
                raise OpError("busy", f"another change of the run folder has not ended within {patience:.0f} s")
            try:
                return work(call)
            finally:
                self._changing.release()

        return run

    def _cancel(self, call: Call) -> Json:
        target = self._calls.get(call["target"])
        if target is not None:
            target.cancelled.set()
        return {}

    @staticmethod
    def _unknown(call: Call) -> Json:
        raise OpError("unknown-op", "this node helper knows no operation {!r}".format(call["op"]))

    def _send(self, message: Json) -> None:
        self._write(None, json.dumps(message))

    def _write(self, _: object, text: str) -> None:
        data = memoryview(text.encode() + b"\n")
        with self._writing:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except OSError:
                os._exit(0)  # Nobody reads any more.

    def _end_when_silent(self) -> None:
        while time.monotonic() - self._heard < SILENCE:
            time.sleep(1.0)
            self._end_if_frozen()
            self._awake = since_boot()
        self._locks.release_all()
        os.write(2, b"its controller has said nothing for %d s\n" % SILENCE)
        os._exit(0)

    def _end_if_frozen(self) -> None:
        """End if we stood still: meanwhile somebody else may have taken over."""
        still = since_boot() - self._awake
        if still > FROZEN:
            os.write(2, b"it stood still for %d s, longer than it is waited for\n" % still)
            os._exit(1)


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


def running_code() -> CodeType:
    """Give the code object of this very module, however it came here, so that keepers can be made of it."""
    try:
        [].pop()
    except IndexError as error:
        frame = error.__traceback__.tb_frame if error.__traceback__ else None
        if frame is not None and frame.f_back is not None:
            return frame.f_back.f_code
    raise RuntimeError("no code of our own")


def main(code: CodeType) -> None:
    """Be the helper, or with the word ``sgdeploy-keeper`` a keeper."""
    if sys.argv[1:2] == ["sgdeploy-keeper"]:
        keeper_main(sys.argv[2])
        return
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, do_nothing)
    Server(code).run()
    os._exit(0)  # Threads that hang in the kernel must not hold us.


if __name__ == "__main__":
    main(running_code())
