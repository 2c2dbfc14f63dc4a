"""What of ours lives, at one moment, and how that is proven."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import OpError
from .folder import FOLDER, MARK
from .processes import boot_id, snapshot, title, variable_of
from .threads import wait_until

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .errors import Json
    from .folder import Folder
    from .processes import Stat


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
