"""Each command from its words to its exit code; the hosts are played by fakes."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sgdeploy.cli.targets import SHIPPED
from sgdeploy.deploy import down as down_case
from sgdeploy.deploy import elsewhere
from sgdeploy.deploy import parting as parting_case
from sgdeploy.deploy import status as status_case
from sgdeploy.deploy import up as up_case
from sgdeploy.deploy.events import DeploymentStatus, HostState, Note, Outcome, Step, Tell
from sgdeploy.deploy.options import DownOptions, UpOptions
from sgdeploy.errors import CancelledRunError, HostFault, RemoteError, SgdeployError, StartupError, StateError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Connector
from tests.unit.cli.conftest import Call


@dataclass
class Hosts:
    """Stands for all hosts: remembers what the use cases were asked, and answers as told."""

    running: dict[str, Plan] = field(default_factory=dict)
    ups: list[tuple[Plan, UpOptions]] = field(default_factory=list)
    downs: list[tuple[Plan, DownOptions]] = field(default_factory=list)
    secrets: list[Mapping[str, str]] = field(default_factory=list)
    advised: list[bool] = field(default_factory=list)
    left: list[list[str]] = field(default_factory=list)
    before_start: SgdeployError | None = None
    in_the_start: SgdeployError | None = None
    after_start: SgdeployError | None = None
    after_ready: SgdeployError | None = None
    states: dict[str, Any] = field(default_factory=dict)

    async def up(self, plan: Plan, _connector: Connector, tell: Tell, options: UpOptions) -> None:
        """Play the use case `up`."""
        self.ups.append((plan, options))
        tell(Step(1, 6, "connect"))
        if self.before_start:
            raise self.before_start
        if options.dry_run:
            tell(Outcome("dry-run", "nothing was changed", 0.1))
            return
        options.remember()
        if self.in_the_start:
            raise self.in_the_start
        tell(HostState("a1", "started"))
        if self.after_start:
            raise self.after_start
        self.running[plan.name] = plan
        if self.after_ready:
            raise self.after_ready
        tell(Outcome("ready", f"{plan.name} serves", 1.0))

    async def down(self, plan: Plan, _connector: Connector, tell: Tell, options: DownOptions) -> None:
        """Play the use case `down`."""
        self.downs.append((plan, options))
        found = self.running.pop(plan.name, None)
        tell(Outcome("stopped" if found else "nothing", f"{plan.name} is down", 0.5))

    async def status(
        self, plan: Plan, _connector: Connector, secrets: Mapping[str, str], *, advise: bool, also: tuple[PlanHost, ...]
    ) -> DeploymentStatus:
        """Play the use case `status`."""
        self.secrets.append(secrets)
        self.advised.append(advise)
        self.left.append([host.host for host in also])
        state = self.states.get(plan.name, "ready" if plan.name in self.running else "down")
        if isinstance(state, SgdeployError):
            raise state
        return DeploymentStatus(plan.name, state, "sha256:aa", (), {}, "", (), "http://127.0.1.1:30000")


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Put the fakes in the place of the use cases."""
    made = Hosts()
    monkeypatch.setattr(up_case, "up", made.up)
    monkeypatch.setattr(down_case, "down", made.down)
    monkeypatch.setattr(status_case, "status", made.status)
    return made


def test_a_changed_profile_still_finds_what_was_started(
    call: Call, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names another run folder now, where nothing is: who looked only there would say so and forget the name."""
    assert call("up", "tiny.yaml").code == 0
    moved = ("--set", "node.run_dir=/srv/elsewhere")
    seen = call("status", "tiny.yaml", *moved)
    assert "`sgdeploy status tiny` looks there" in seen.out
    asked: list[Plan] = []

    async def lives(before: Plan, _connector: Connector, _tell: Tell) -> None:
        asked.append(before)
        raise StateError("tiny runs as it was planned before")

    monkeypatch.setattr(elsewhere, "refuse_if_it_lives", lives)
    assert call("up", "tiny.yaml", *moved).code == 8
    down = call("down", "tiny.yaml", *moved)
    assert (down.code, down.err.splitlines()[-1]) == (0, "stopped: tiny is down (0.5 s)")
    started = hosts.ups[0][0]
    assert asked == [started]
    folders = [[host.run_dir for host in plan.hosts] for plan, _ in hosts.downs]
    assert folders == [
        [host.run_dir for host in started.hosts],
        [f"/srv/elsewhere/tiny/{name}" for name in ("a1", "a2")],
    ]
    assert call("status", "tiny").code == 9
    hosts.downs.clear()
    assert call("down", "tiny.yaml", *moved).code == 0
    assert len(hosts.downs) == 1, "where it was taken down is no place to look any more"


def test_what_a_part_leaves_running_is_still_known(call: Call, hosts: Hosts) -> None:
    assert call("up", "tiny.yaml").code == 0
    assert call("down", "tiny", "--only", "native").code == 0
    assert hosts.downs[0][1].only == ("native",)
    assert call("status", "tiny").code == 9


UNREACHABLE = RemoteError("no host could be reached", [HostFault("a1", "no route to host")])


def test_a_whole_life(call: Call, hosts: Hosts) -> None:
    assert call("status").err.startswith("no deployment is known on this machine")
    up = call("up", "tiny.yaml")
    assert (up.code, up.out) == (0, "")
    assert up.err.splitlines() == ["[1/6] connect", "a1: started", "ready: tiny serves (1.0 s)"]
    listed = call("status")
    assert (listed.code, listed.out.splitlines()[1].split()[:2]) == (0, ["tiny", "ready"])
    assert call("status", "tiny").out.startswith("tiny is ready\n")
    down = call("down")
    assert (down.code, down.err) == (0, "stopped: tiny is down (0.5 s)\n")
    assert hosts.downs[0][0] == hosts.ups[0][0]
    assert call("status").err.startswith("all that was started from this machine was taken down again: tiny;")
    for words in (("down",), ("down", "tiny")):
        again = call(*words)
        assert (again.code, again.err) == (0, "nothing: tiny is down (0.5 s)\n")
    assert call("status", "tiny").code == 9
    again = call("down", "tiny.yaml")
    assert (again.code, again.err) == (0, "nothing: tiny is down (0.5 s)\n")
    assert call("status", "tiny.yaml").code == 9


def test_the_options_of_up_arrive(call: Call, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "hunter2")
    found = call(
        *("up", "tiny.yaml", "--timeout", "1h30m", "--no-wait", "--keep"),
        *("--set", "native.port=31000", "--set", "native.flags.api-key=${env:MY_KEY}", "--quiet"),
    )
    assert found.code == 0
    plan, options = hosts.ups[0]
    assert (options.timeout, options.wait, options.keep, options.dry_run) == (5400.0, False, True, False)
    assert options.secrets == {"MY_KEY": "hunter2"}
    assert plan.front_door.port == 31000
    assert options.owner.command.startswith("sgdeploy up tiny.yaml --timeout 1h30m")
    assert "hunter2" not in found.out + found.err
    assert call("status", "tiny").code == 0
    assert hosts.secrets == [{"MY_KEY": "hunter2"}]


def test_up_without_options_leaves_the_profile_in_charge(call: Call, hosts: Hosts) -> None:
    call("up", "tiny.yaml")
    options = hosts.ups[0][1]
    assert (options.timeout, options.wait, options.keep, options.dry_run) == (None, True, False, False)


def test_up_by_name_reads_the_profile_again(call: Call, hosts: Hosts, home: Path) -> None:
    call("up", "tiny.yaml")
    profile = home / "work" / "tiny.yaml"
    profile.write_text(profile.read_text().replace("native:\n", "native:\n  port: 32000\n"))
    assert call("up", "tiny").code == 0
    assert [plan.front_door.port for plan, _ in hosts.ups] == [30000, 32000]


def test_a_name_means_what_was_started_with_its_overlays_and_changes(
    call: Call, hosts: Hosts, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "work" / "more.yaml").write_text("native: {flags: {page-size: 32}}\n")
    changes = ("--overlay", "rehearsal", "--overlay", "more.yaml", "--set", "native.port=31000")
    assert call("up", "tiny.yaml", *changes, "--set", "name=other").code == 0
    started = hosts.ups[0][0]
    monkeypatch.chdir(home)
    again = call("up", "other")
    assert again.code == 0
    assert "other is meant as it was started last: " in again.err
    assert "more.yaml --set native.port=31000 --set name=other" in again.err
    assert call("down", "other").code == 0
    assert call("up", "other").code == 0, "also after it was taken down"
    assert [plan for plan, _ in hosts.ups[1:]] == [started, started]
    assert call("up", "other", "--set", "native.port=32000").code == 0
    assert call("up", "other").code == 0
    assert [plan.front_door.port for plan, _ in hosts.ups[3:]] == [32000, 32000]
    assert call("up", str(home / "work" / "tiny.yaml"), "--set", "name=other").code == 0
    assert hosts.ups[-1][0].front_door.port == 30000, "a path means the profile as it stands"


def test_a_name_is_known_once_something_was_started(call: Call, hosts: Hosts) -> None:
    assert call("up", "tiny.yaml", "--dry-run").code == 0
    hosts.before_start = UNREACHABLE
    assert call("up", "tiny.yaml").code == 5
    assert call("status", "tiny").code == 2
    hosts.before_start, hosts.after_start = None, StartupError("1 process failed", [])
    assert call("up", "tiny.yaml").code == 6
    assert call("status", "tiny").code == 9


def test_a_relative_state_folder_does_not_count(call: Call, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert call("up", "tiny.yaml").code == 0
    assert list(hosts.running) == ["tiny"]
    assert not Path("relative").exists()
    monkeypatch.chdir("/")
    assert call("status", "tiny").code == 0


def test_a_name_is_known_also_when_the_start_itself_is_interrupted(call: Call, hosts: Hosts) -> None:
    hosts.in_the_start = CancelledRunError("interrupted; what was started keeps running and is on record")
    assert call("up", "tiny.yaml").code == 130
    assert call("status", "tiny").code == 9
    assert call("down", "tiny").code == 0


def test_up_goes_on_where_the_name_cannot_be_kept(call: Call, hosts: Hosts, home: Path) -> None:
    (home / "state").write_text("a file where a folder is needed")
    found = call("up", "tiny.yaml")
    assert (found.code, list(hosts.running)) == (0, ["tiny"])
    assert "warning: this machine cannot remember tiny: " in found.err


def test_the_options_of_down_arrive(call: Call, hosts: Hosts) -> None:
    call("up", "tiny.yaml")
    assert call("down", "tiny", "--grace", "90", "--keep-records").code == 0
    assert call("down", "tiny", "--now").code == 0  # records were kept, so the name was too
    first, second = (options for _, options in hosts.downs)
    assert (first.grace, first.now, first.keep_records) == (90.0, False, True)
    assert (second.grace, second.now, second.keep_records) == (None, True, False)


def test_names_that_nobody_knows(call: Call, hosts: Hosts) -> None:
    call("up", "tiny.yaml")
    call("up", "tiny.yaml", "--set", "name=other")
    assert len(hosts.ups) == 2
    assert "did you mean tiny?" in call("status", "tinny").err
    assert "known: other, tiny" in call("down", "zzz").err
    both = call("down")
    assert (both.code, "known: other, tiny" in both.err) == (2, True)
    assert call("down", "tiny", "--set", "native.port=1").code == 2


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (("ready", "ready"), 0),
        (("degraded", "ready"), 1),
        (("starting", "starting"), 1),
        (("down", "down"), 9),
        (("ready", "down"), 1),
        ((UNREACHABLE, "ready"), 5),
    ],
)
def test_the_code_of_status(call: Call, hosts: Hosts, states: tuple[Any, Any], code: int) -> None:
    for name in ("one", "two"):
        call("up", "tiny.yaml", "--set", f"name={name}")
    hosts.states = dict(zip(("one", "two"), states, strict=True))
    found = call("status")
    assert found.code == code
    assert "two" in found.out  # one that cannot be asked does not hide the others
    single = {"ready": 0, "degraded": 1, "starting": 1, "down": 9, UNREACHABLE: 5}
    assert call("status", "one").code == single[states[0]]


def test_json_is_for_programs_in_every_command(call: Call, hosts: Hosts) -> None:
    up = call("up", "tiny.yaml", "--json")
    assert [json.loads(line)["event"] for line in up.out.splitlines()] == ["step", "host", "outcome"]
    assert up.err == ""
    assert json.loads(call("status", "tiny", "--json").out)["state"] == "ready"
    assert [json.loads(line)["name"] for line in call("status", "--json").out.splitlines()] == ["tiny"]
    plan = Plan.from_json(json.loads(call("plan", "tiny.yaml", "--json").out))
    assert plan == hosts.ups[0][0]
    assert json.loads(call("plan", "tiny.yaml", "--host", "a2", "--json").out)["hosts"][0]["address"] == "127.0.1.2"
    assert json.loads(call("validate", "tiny.yaml", "--json").out) == {"profile": "tiny.yaml", "valid": True}
    assert json.loads(call("down", "--json").out)["outcome"] == "stopped"
    wrong = call("validate", "tiny.yaml", "--set", "nativ=1", "--json")
    assert [json.loads(line).get("level") for line in wrong.out.splitlines()] == ["error", None]
    assert wrong.err == call("validate", "tiny.yaml", "--set", "nativ=1").err
    broken = call("plan", "tiny.yaml", "--set", "nativ=1", "--json")
    assert broken.code == 2
    assert json.loads(broken.out)["problems"][0]["hint"] == "did you mean `native`?"
    assert "sgdeploy" in json.loads(call("version", "--json").out)


def test_all_problems_of_all_profiles(call: Call, home: Path) -> None:
    (home / "work" / "bad.yaml").write_text("version: 1\nname: bad\ntopolgy: native\n")
    found = call("validate", "bad.yaml", "tiny.yaml", "none.yaml")
    assert found.code == 2
    assert found.out.splitlines() == [
        "bad.yaml: not valid",
        "tiny.yaml: valid: native on cpu, 2 processes on 2 hosts",
        "none.yaml: not valid",
    ]
    assert "bad.yaml:3:1: error: unknown key `topolgy`\n  topolgy: native\n  ^^^^^^^" in found.err


def test_shipped_profiles_and_overlays_by_name(call: Call) -> None:
    assert call("validate", f"{SHIPPED}demo/local").code == 0
    kunpeng = f"{SHIPPED}kunpeng/deepseek-v3-native.yaml"
    real, rehearsed = (call("plan", kunpeng, *words).out for words in ([], ["--overlay", "rehearsal"]))
    assert "256 processes on 16 hosts" in real
    assert "256 processes on 16 hosts" in rehearsed
    assert "engine.py" in rehearsed.replace(real, "")
    wrong = call("validate", f"{SHIPPED}demo/locl")
    assert (wrong.code, "did you mean demo/local?" in wrong.err) == (2, True)
    assert "there are: rehearsal" in call("plan", "tiny.yaml", "--overlay", "zzz").err


def test_an_overlay_is_no_profile(call: Call) -> None:
    (listed,) = (line for line in call("plan", "shipped:nothing").err.splitlines() if "there are" in line)
    assert "demo/local" in listed
    assert "overlays" not in listed
    found = call("validate", "shipped:overlays/rehearsal")
    assert found.code == 2
    assert "this is an overlay" in found.err
    assert found.err.endswith("1 error\n")


def test_the_schemas(call: Call) -> None:
    profile, inventory = (json.loads(call("schema", *words).out) for words in ([], ["--inventory"]))
    assert call("schema").out.startswith('{\n  "$schema"')
    assert call("schema", "--json").out.count("\n") == 1
    assert "native" in profile["properties"]
    assert "groups" in inventory["properties"]


def test_the_demo_goes_all_the_way(call: Call, hosts: Hosts) -> None:
    found = call("demo")
    assert found.code == 0
    assert found.out.startswith("demo is ready")
    assert [line for line in found.err.splitlines() if line.startswith("$")] == [
        "$ sgdeploy up shipped:demo/local",
        "$ sgdeploy status demo",
        "$ sgdeploy down demo",
    ]
    assert found.err.splitlines()[-1].startswith("asked again, demo is down")
    assert hosts.running == {}


def test_the_demo_of_two_buckets_shows_which_prompt_goes_where(
    call: Call, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted: list[Plan] = []

    async def part(plan: Plan, _connector: Connector, tell: Tell, _secrets: Mapping[str, str]) -> None:
        parted.append(plan)
        tell(Note("the long one went elsewhere"))

    monkeypatch.setattr(parting_case, "part", part)
    found = call("demo", "--two-bucket")
    assert found.code == 0, found.err
    plan = hosts.ups[0][0]
    assert parted == [plan]
    assert (plan.topology, plan.processes[-1].role, plan.processes[-1].argv[0]) == (
        "two-bucket-prefill",
        "router",
        sys.executable,
    )
    lines = found.err.splitlines()
    assert lines[0] == f"$ sgdeploy up shipped:demo/two-bucket --set router.python={sys.executable}"
    told = lines.index("note: the long one went elsewhere")
    assert told < lines.index("$ sgdeploy status demo-buckets") < lines.index("$ sgdeploy down demo-buckets")
    assert hosts.running == {}


def test_the_demo_of_two_buckets_without_a_router_says_how_to_get_one(
    call: Call, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    found = call("demo", "--two-bucket")
    assert (found.code, hosts.ups) == (2, [])
    assert f"{sys.executable} has no package sglang-router" in found.err
    assert f"{sys.executable} -m pip install sglang-router==0.3.2" in found.err


def test_the_demo_can_be_kept(call: Call, hosts: Hosts) -> None:
    assert call("demo", "--keep").code == 0
    assert list(hosts.running) == ["demo"]
    assert call("down", "demo").code == 0


@pytest.mark.parametrize(("words", "left"), [((), []), (("--keep",), ["demo"])])
def test_an_interrupted_demo_leaves_nothing_unless_asked(
    call: Call, hosts: Hosts, words: tuple[str, ...], left: list[str]
) -> None:
    hosts.after_ready = CancelledRunError("interrupted; what was started keeps running and is on record")
    found = call("demo", *words)
    assert (found.code, list(hosts.running)) == (130, left)
    assert found.err.splitlines()[-1].startswith("interrupted; ")


def test_the_demo_does_not_call_down_what_is_not(call: Call, hosts: Hosts) -> None:
    hosts.states["demo"] = "degraded"
    found = call("demo")
    assert (found.code, "demo should be down and is degraded" in found.err) == (5, True)


def test_the_demo_takes_down_what_it_cannot_ask(call: Call, hosts: Hosts) -> None:
    hosts.states["demo"] = UNREACHABLE
    assert call("demo").code == 5
    assert hosts.running == {}


def test_a_profile_is_valid_without_its_secrets_and_they_are_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("validate", "tiny.yaml", "--set", "native.flags.api-key=${env:MY_KEY}")
    monkeypatch.delenv("MY_KEY", raising=False)
    assert (call(*words).code, "needed by `up`: MY_KEY" in call(*words).err) == (0, True)
    monkeypatch.setenv("MY_KEY", "hunter2")
    assert call(*words).err == ""


def test_warnings_never_mix_with_the_one_object_of_a_plan(call: Call, home: Path) -> None:
    profile = home / "work" / "tiny.yaml"
    profile.write_text(profile.read_text().replace(", flags: {max-total-tokens: 8192}", ""))
    found = call("plan", "tiny.yaml", "--json")
    assert found.code == 0
    assert "warning: " in found.err
    assert Plan.from_json(json.loads(found.out)).name == "tiny"


def test_what_is_doubtful_in_a_profile_is_told_where_it_is_planned_and_nowhere_else(call: Call, hosts: Hosts) -> None:
    doubtful = ("tiny.yaml", "--set", "engine.flags=null")
    for command in ("validate", "plan", "up"):
        assert "bounds the KV cache" in call(command, *doubtful).err
    for command in ("status", "diff", "down"):
        assert "bounds the KV cache" not in call(command, *doubtful).err
    assert hosts.downs


def test_advice_is_asked_for_one_deployment(call: Call, hosts: Hosts) -> None:
    call("up", "tiny.yaml")
    assert call("status", "tiny", "--advice").code == 0
    assert call("status", "tiny").code == 0
    assert hosts.advised == [True, False]
    found = call("status", "--advice")
    assert (found.code, found.out) == (2, "")
    assert "sgdeploy status NAME --advice" in found.err
