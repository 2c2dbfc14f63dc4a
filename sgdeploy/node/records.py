"""The operations ``records`` and ``audit``: what stands in the run folder, and who did what."""

from __future__ import annotations

import errno
import os
import time

from .errors import os_fault
from .files import make_folder, read_intact, to_bytes
from .folder import exit_json, record_alive
from .processes import boot_id, title
from .survivors import Survivors

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .call import Call
    from .errors import Json


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
