"""The operation ``prepare``: plan, scripts and files, on disk before anything starts."""

from __future__ import annotations

import contextlib

from .clear import put_away
from .errors import OpError
from .files import make_folder, to_bytes, write_atomic, write_json
from .folder import plain

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .call import Call
    from .errors import Json
    from .folder import Folder


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
