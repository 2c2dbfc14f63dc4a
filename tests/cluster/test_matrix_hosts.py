"""The fault matrix, hosts: they cannot be entered, cannot hold what `up` brings, or are not as the others are."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.deployments import (
    QUICK,
    assert_nothing_left,
    engines,
    listening,
    main_of,
    small_profile,
    write_inventory,
)
from tests.cluster.running import Stopwatch, running
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]
NOTHING = "nothing was changed on any host"
ROOT = "/var/lib/sgdeploy"


@pytest.fixture
def victim(pair: Lab) -> Iterator[LabHost]:
    """Give a host that may be spoilt: it is set up anew afterwards, with the keys that it had."""
    host = pair.host("n02")
    yield host
    assert_nothing_left([host])
    host.power_off()
    host.power_on()


def refused(pair: Lab, profile: Path) -> tuple[str, int]:
    """Try to bring up; give what was said and the code. No host may have been touched."""
    up = pair.sgdeploy("up", str(profile))
    assert NOTHING in up.stderr
    assert all(engines(host) == [] for host in pair.hosts)
    assert not pair.host("n01").path(ROOT).exists()
    return up.stderr, up.returncode


@pytest.mark.fault("wrong key", told="n02: … refuses user root; keys tried: …/.ssh/id_ed25519 … ssh-copy-id", code=5)
def test_a_key_that_a_host_does_not_take(pair: Lab, victim: LabHost, tmp_path: Path, heard: Heard) -> None:
    victim.write("/etc/ssh/lab_authorized_keys", "")
    watch = Stopwatch()
    heard(*refused(pair, small_profile(pair, tmp_path)), watch.seconds)


@pytest.mark.fault("changed host key", told="n02: the host key of n02 … has CHANGED; it presents …SHA256:", code=5)
def test_a_host_key_that_has_changed(pair: Lab, victim: LabHost, tmp_path: Path, heard: Heard) -> None:
    victim.change_host_key()
    watch = Stopwatch()
    heard(*refused(pair, small_profile(pair, tmp_path)), watch.seconds)


@pytest.mark.fault("no python3", told="n02: there is no python3 for root", code=5)
def test_a_host_without_python(pair: Lab, victim: LabHost, tmp_path: Path, heard: Heard) -> None:
    victim.without_python()
    watch = Stopwatch()
    heard(*refused(pair, small_profile(pair, tmp_path)), watch.seconds)


@pytest.mark.fault(
    "run folder not writable", told="n02: … may not write …; the run folder is … set node.run_dir", code=3
)
@pytest.mark.parametrize("how", ["another user", "read-only"])
def test_a_run_folder_that_is_not_ours(pair: Lab, victim: LabHost, tmp_path: Path, how: str, heard: Heard) -> None:
    extra = f"node: {{run_dir: {ROOT}}}\n"
    profile = small_profile(pair, tmp_path, extra=extra)
    if how == "another user":
        for host in pair.hosts:
            host.add_user("ops")
        pair.host("n01").path(ROOT).mkdir(exist_ok=True)
        os.chown(pair.host("n01").path(ROOT), 4711, 4711)
        write_inventory(pair, tmp_path, ssh="user: ops")
    else:
        victim.path(ROOT).mkdir(parents=True)
        victim.run(["mount", "-t", "tmpfs", "-o", "ro", "none", ROOT])
    up = pair.sgdeploy("up", str(profile))
    assert NOTHING in up.stderr
    assert "1 problem on 1 of 2 hosts" in up.stderr
    heard(up.stderr, up.returncode)


@pytest.mark.fault(
    "run folder not writable",
    told="n02: /var/lib/sgdeploy is no folder (…); the run folder is /var/lib/sgdeploy/small/n02",
    code=3,
)
@pytest.mark.parametrize("how", ["file", "link to nowhere"])
def test_a_run_folder_that_is_no_folder(pair: Lab, victim: LabHost, tmp_path: Path, how: str, heard: Heard) -> None:
    if how == "file":
        victim.write(ROOT, "")
    else:
        victim.path(ROOT).symlink_to("/nowhere")
    heard(*refused(pair, small_profile(pair, tmp_path)))


@contextlib.contextmanager
def stranger(host: LabHost, port: int) -> Iterator[int]:
    """Let somebody else's web server hold a port; gives its pid there."""
    argv = ["python3", "-m", "http.server", str(port)]
    with subprocess.Popen(host.command(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as entered:

        def serving() -> list[int]:
            return [proc.pid for proc in host.processes() if proc.argv[-1] == str(port)]

        try:
            wait_until(lambda: port in listening(host), f"a listener on {port}")
            yield next(proc.inner_pid for proc in host.processes() if proc.pid in serving())
            assert serving(), "a stranger is left alone"
        finally:
            for pid in serving():
                os.kill(pid, signal.SIGKILL)
            entered.wait(10)


@pytest.mark.fault(
    "port taken by a stranger", told="n02: 10.77.0.2:30000 is taken by …python3 -m http.server 30000", code=3
)
def test_a_port_that_a_stranger_holds(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    with stranger(pair.host("n02"), 30000) as pid:
        said, code = refused(pair, small_profile(pair, tmp_path))
    assert str(pid) in said
    heard(said, code)


HOUR = """\
#!/bin/sh
# Python on a host whose clock is an hour ahead: the helper and its keepers come through here, and see it so.
if [ "$4" = -c ]; then
  flags="$1 $2 $3"
  code=$5
  shift 5
  ahead="import sys,time;sys.executable='{self}';_now=time.time;time.time=lambda:_now()+3600"
  exec {python} $flags -c "$ahead;$code" "$@"
fi
exec {python} "$@"
"""


def set_clock_ahead(host: LabHost) -> None:
    """Put an hour between the host's clock and all others, as its helper sees it."""
    found = host.run(["sh", "-c", "command -v python3; readlink -f $(command -v python3)"]).stdout.split()
    host.path(found[0]).unlink()
    host.write(found[0], HOUR.format(python=found[1], self=found[0]), 0o755)


@pytest.mark.fault(
    "clock of one host off by an hour",
    told="n02: the clock is 3600 s ahead of the others … native/n02 failed on n02: killed by SIGKILL (9)",
    code=6,
)
def test_a_clock_that_is_an_hour_ahead(pair: Lab, victim: LabHost, tmp_path: Path, heard: Heard) -> None:
    """It is told, and the first death is still found: that of n02, of which n01 dies."""
    set_clock_ahead(victim)
    profile = small_profile(pair, tmp_path, **{**QUICK, "SGDEPLOY_REHEARSE_FAIL": "hang@warmup:n0"})
    with running(pair, "up", str(profile)) as up:
        up.ready("small/native/n02")
        watch = Stopwatch()
        os.kill(main_of(victim), signal.SIGKILL)
        failed = up.failed()
        seconds = watch.seconds
        code, said = up.end()
    assert (failed["process"], failed["host"]) == ("small/native/n02", "n02"), said
    assert failed["seconds_to_report"] < 30, "counted by the host's own clock"
    notes = " ".join(
        f"{', '.join(event['hosts'])}: {event['message']}" for event in up.told if event["event"] == "note"
    )
    heard(f"{notes} {said}", code, seconds)
