"""The run folder of one host and deployment: where everything stands in it, and reading it back."""

from __future__ import annotations

from pathlib import Path

from .errors import OpError, Outcome
from .files import bad_record, drafts_in, make_folder, read_intact, read_json, remove, write_json
from .processes import boot_id, lives, read_stat
from .shapes import EXIT, KEEPER, NAME, PROCESS, is_count, is_moment, is_name, misfit

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from .errors import Json


MARK, FOLDER = "SGDEPLOY_MARK", "SGDEPLOY_FOLDER"
SECRETS = "SGDEPLOY_SECRET_"


def plain(name: str, what: str) -> str:
    """Insist on a file name that cannot leave its folder."""
    if not NAME.match(name):
        raise OpError("bad-request", f"{what} {name!r} is not a plain file name")
    return name


def stays_inside(name: Any) -> bool:
    """Whether it is a path that leads to somewhere below the folder from which it starts."""
    parts = Path(name).parts if isinstance(name, str) else ()
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts


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
        if not stays_inside(name):
            raise OpError("bad-request", f"{name!r} does not stay inside the run folder")
        return self.path / name

    def make(self) -> None:
        """Make the folder and those in it; what somebody was killed over while writing it is removed."""
        for name in ("", "scripts", "processes", "exits", "milestones", "logs", "keepers"):
            make_folder(self.path / name)
        for path, writer in self.drafts():
            if read_stat(writer) is None:
                remove(path)

    def drafts(self) -> list[tuple[Path, int]]:
        """Give what is half-written here, in our folders and in those of shipped files, and the pid of its writer."""
        shipped = {self.inside(name).parent for name in self.noted_files()}
        ours = {self.path / name for name in ("", "scripts", "processes", "exits", "milestones", "keepers", "secrets")}
        return [draft for folder in sorted(shipped | ours) for draft in drafts_in(folder)]

    def noted_files(self) -> list[str]:
        """Give the files that were put here beside our own; what leads out of the folder is none of them."""
        names = (read_intact(self.files_file) or {}).get("files")
        return [name for name in names if stays_inside(name)] if isinstance(names, list) else []

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
        found = [(path, read_intact(path)) for path in self._listed("processes")]
        return [self._with_log(record) for path, record in found if record is not None and not odd(record, path)]

    def _with_log(self, record: Json) -> Json:
        """Give a record whose log is below our logs: whatever it says, nothing else is shown for one."""
        return {**record, "log": str(self.path / "logs" / Path(record["log"]).name)}

    def damaged(self) -> list[str]:
        """Say which files of ours are damaged: what they were about can be found by the processes alone."""
        outcomes = []
        for path in (*self._listed("processes"), self.plan_file, self.launch_file, self.files_file):
            outcome = Outcome()
            with outcome:
                found = read_json(path)
                why = odd(found, path) if found is not None and path.parent.name == "processes" else ""
                if why:
                    raise bad_record(path, why)
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
        found = map(read_intact, self._listed("keepers"))
        return [keeper for keeper in found if keeper is not None and not misfit(keeper, KEEPER)]

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
        intact = found is not None and not misfit(found, EXIT)
        same = intact and found is not None and (found["pid"], found["start"]) == (record["pid"], record["start"])
        return found if same else None


def exit_json(ended: Json | None) -> Json | None:
    """Give ``{"code": 3}`` or ``{"signal": 9}`` out of what the keeper wrote."""
    return None if ended is None else {key: ended[key] for key in ("code", "signal") if is_count(ended.get(key))}


def odd(record: Json, path: Path) -> str:
    """Say what is wrong with the record of a process in a file, in a sentence; "" for nothing."""
    if record.get("wall") is not None and not is_moment(record["wall"]):
        return "its wall is no time"
    if "key" in record and record["key"] != path.stem:
        return "its key is not the name of the file"
    wrong = misfit(record, PROCESS)
    return wrong or ("" if is_name(Path(record["log"]).name) else "its log has no plain file name")


def record_alive(record: Json) -> bool:
    """Whether the main process of a record lives; one that is just being started counts while its keeper lives."""
    if record["boot_id"] != boot_id():
        return False
    if record["pid"] is None:
        return lives(record["keeper"]["pid"], record["keeper"]["start"])
    return lives(record["pid"], record["start"])
