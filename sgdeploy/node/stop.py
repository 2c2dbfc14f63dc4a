"""The operations ``signal`` and ``await_gone``: all that is ours is told to end, and proven gone."""

from __future__ import annotations

import signal

from .errors import OpError
from .folder import record_alive
from .logparts import note_runs
from .processes import send_signal, title
from .survivors import Survivors
from .threads import wait_until

TYPE_CHECKING = False

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection

    from .call import Call
    from .errors import Json
    from .folder import Folder


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


def op_about_to_end(call: Call) -> Json:
    """Remember that processes are about to be told to end: what they do from now on is no fault of theirs."""
    folder = call.folder
    note_runs(folder, folder.records(), asked={record["id"] for record in folder.select(call.get("ids"))})
    return {}


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
