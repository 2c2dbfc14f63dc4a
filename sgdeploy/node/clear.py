"""The operations ``restore`` and ``clear``: what is given back once nothing of ours lives."""

from __future__ import annotations

import contextlib
import signal
from functools import partial

from .errors import OpError
from .files import remove, remove_tree
from .hugepages import Hugepages
from .keeper_line import keeper_gone
from .logparts import note_runs
from .processes import boot_id, read_stat, send_signal
from .start import KILL_PATIENCE
from .survivors import Survivors, refuse_if_alive
from .threads import wait_until

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection

    from .call import Call
    from .errors import Json
    from .folder import Folder


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
    note_runs(folder, folder.records())
    shipped = folder.noted_files()
    for path in [*map(folder.inside, shipped), *(path for path, _ in folder.drafts())]:
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
    note_runs(folder, records)
    for record in records:
        key = record["key"]
        for path in ("secrets/%s.yaml", "scripts/%s.sh"):
            remove(folder.inside(path % key))
        remove(folder.exit_file(key))
        remove(folder.milestones_file(key))
        remove(folder.record_file(key))
    return {}
