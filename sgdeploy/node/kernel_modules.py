"""Kernel modules that a host must have loaded before processes start."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import OpError
from .files import word
from .programs import run_command

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .errors import Json


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
