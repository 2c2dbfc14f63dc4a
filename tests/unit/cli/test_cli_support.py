"""What goes into a bug report: names and numbers, and nothing that nobody else should read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgdeploy import __version__
from sgdeploy.deploy.registry import Registry, default_base
from sgdeploy.plan.compile import compile_profile
from tests.unit.cli.conftest import Call

VALUE = "hunter2-hunter2"


@pytest.fixture
def registry(home: Path) -> Registry:
    return Registry(default_base({"XDG_STATE_HOME": str(home / "state")}))


def test_it_names_versions_system_and_what_is_known(call: Call, home: Path, registry: Registry) -> None:
    registry.remember(compile_profile(Path("tiny.yaml")).plan, home / "work" / "tiny.yaml")
    ssh = home / "home" / ".ssh"
    ssh.mkdir(parents=True)
    (ssh / "config").write_text("Host secret-host\n  User secret-user\n")
    found = json.loads(call("version", "--support", "--json").out)
    assert found["sgdeploy"] == __version__
    assert {"python", "system", "asyncssh", "cryptography", "distribution", "machine", "encoding"} <= set(found)
    assert found["ssh"] == {"config": "2 lines", "known_hosts": "not there"}
    assert found["deployments"]["tiny"].startswith("native on cpu, engine 0.5.23, 2 processes on 2 hosts, sha256:")
    assert found["terminal"] == {"stdin": False, "stdout": False, "stderr": False}
    text = call("version", "--support").out
    assert f"sgdeploy {__version__}\n" in text
    assert "ssh config: 2 lines; known_hosts: not there\n" in text
    assert "secret" not in text


def test_no_value_of_a_variable_is_in_it(call: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SGDEPLOY_SECRET_KEY", "HTTPS_PROXY", "SSH_AUTH_SOCK", "MY_TOKEN", "LC_ALL"):
        monkeypatch.setenv(name, f"/{VALUE}/{name}")
    for words in (["--json"], []):
        found = call("version", "--support", *words)
        assert (found.code, found.err) == (0, "")
        assert VALUE not in found.out
        assert str(home) not in found.out
        assert {"SGDEPLOY_SECRET_KEY", "HTTPS_PROXY", "SSH_AUTH_SOCK"} <= set(
            found.out.replace('"', " ").replace(",", " ").split()
        )
        assert "MY_TOKEN" not in found.out  # it has no meaning for us


def test_what_is_damaged_or_gone_is_said(call: Call, home: Path, registry: Registry) -> None:
    registry.remember(compile_profile(Path("tiny.yaml")).plan, home / "work" / "gone.yaml")
    broken = registry.base / "broken"
    broken.mkdir()
    (broken / "plan.json").write_text("{")
    (home / "home" / ".ssh" / "config").mkdir(parents=True)
    found = json.loads(call("version", "--support", "--json").out)
    assert found["deployments"]["broken"] == "a damaged record"
    assert found["deployments"]["tiny"].endswith(", its profile is gone")
    assert found["ssh"]["config"] == "cannot be read: Is a directory"


def test_it_needs_no_home(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(Path, "expanduser", nowhere)
    monkeypatch.setattr(Path, "home", nowhere)
    found = json.loads(call("version", "--support", "--json").out)
    assert found["deployments"] == "none can be known without a home folder"
    assert found["ssh"]["config"] == "cannot be read: no home folder"
