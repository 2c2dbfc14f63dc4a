"""What an operation refuses, as a value with a code, and how anything that goes wrong becomes one."""

from __future__ import annotations

import errno

TYPE_CHECKING = False
"""What type checkers take for true (see the package)."""

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    Json = dict[str, Any]


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
            module, line = place_of(trace)
            text = f"{type(error).__name__}: {error}"
            message = f"the node helper failed at {module} line {line}: {text}"
            self.fault = OpError("internal", message, module=module, line=line)
        return True


def place_of(trace: TracebackType | None) -> tuple[str, int]:
    """Give the innermost place of a traceback that is of this package: the file's name and the line."""
    module, line = "", 0
    while trace is not None:
        package, _, name = str(trace.tb_frame.f_globals.get("__name__")).rpartition(".")
        if package == __package__:
            module, line = f"{name}.py", trace.tb_lineno
        trace = trace.tb_next
    return module, line
