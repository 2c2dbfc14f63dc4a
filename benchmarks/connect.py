"""How long it takes to connect to all hosts and learn their facts, and how long a second step on them takes.

Hosts are namespaces of this machine with an sshd of their own, so what runs on them is paid by the same cores. Rivals
only run ``true`` there: asyncssh by itself, OpenSSH under xargs, parallel-ssh and pyinfra, 32 hosts at once each. Facts
take a Python on each host: what that costs alone, asyncssh with ``python3 -c pass`` shows.
Times count from the first connection to the last answer; OpenSSH and pyinfra are programs, whose own start counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import asyncssh

from benchmarks.measure import Aim, Figures, Rival, Table, in_turn, keep, packages, program, reported, words
from sgdeploy.deploy.fleet import open_fleet
from sgdeploy.facts.parse import parse
from sgdeploy.facts.wanted import gather_request
from sgdeploy.plan.compile import compile_profile
from sgdeploy.remote.base import Connector
from sgdeploy.remote.connect import connector
from tests.cluster.deployments import small_profile
from tests.kit.hosts import Lab

AT_ONCE = 32
OURS, BARE, PYTHON = "sgdeploy: connect + facts", "asyncssh: true", "asyncssh: python3 -c pass"
COMMANDS = {BARE: "true", PYTHON: "python3 -I -S -c pass"}
SECOND, CPU = "second step", "CPU of the controller"
PARALLEL_SSH, PYINFRA = "parallel-ssh==2.16.0.post1", "pyinfra==3.10.0"

PARALLEL_SSH_CODE = """
import json, sys, time
from pssh.clients import ParallelSSHClient

def step():
    begin = time.perf_counter()
    answers = client.run_command("true")
    client.join(answers)
    seconds = time.perf_counter() - begin
    assert {answer.exit_code for answer in answers} == {0}
    return seconds

client = ParallelSSHClient(sys.argv[3:], user="root", pkey=sys.argv[1], pool_size=int(sys.argv[2]), allow_agent=False)
json.dump({"": step(), "second step": step()}, sys.stdout)
"""


async def timed(first: Callable[[], Awaitable[None]], second: Callable[[], Awaitable[None]]) -> Figures:
    """Time two steps, and the CPU that the first one takes here."""
    begin, cpu = time.perf_counter(), time.process_time()
    await first()
    connected, used = time.perf_counter(), time.process_time()
    await second()
    return {"": connected - begin, SECOND: time.perf_counter() - connected, CPU: used - cpu}


async def bare(home: Path, names: list[str], command: str) -> Figures:
    """Run a command with nothing but asyncssh, twice on the same connections."""
    places = asyncio.Semaphore(AT_ONCE)
    folder = home / ".ssh"
    connections: list[asyncssh.SSHClientConnection] = []

    async def one(name: str) -> None:
        async with places:
            connection = await asyncssh.connect(
                name,
                config=[folder / "config"],
                known_hosts=str(folder / "known_hosts"),
                client_keys=[str(folder / "id_ed25519")],
            )
            connections.append(connection)
            await connection.run(command, check=True)

    async def first() -> None:
        await asyncio.gather(*(one(name) for name in names))

    async def second() -> None:
        await asyncio.gather(*(connection.run(command, check=True) for connection in connections))

    try:
        return await timed(first, second)
    finally:
        for connection in connections:
            connection.close()


async def ours(profile: Path) -> Figures:
    """Connect and learn the facts as ``up`` does, then ask for the facts again."""
    plan = compile_profile(profile).plan
    connecting: list[Connector] = []

    async def first() -> None:
        connecting.append(connector())
        await facts()

    async def facts() -> None:
        fleet = await open_fleet(connecting[0], plan.hosts)
        answers = await fleet.ask("gather", partial(gather_request, plan))
        for host in plan.hosts:
            parse(host.host, fleet.sessions[host.host].hello, answers.results[host.host])

    try:
        return await timed(first, facts)
    finally:
        await connecting[0].close_all()


def rivals(lab: Lab, python: Path) -> dict[str, Rival]:
    """Give everybody who is measured on these hosts; ``python`` has the other tools."""
    home, names = lab.home, [host.name for host in lab.hosts]
    key, place = home / ".ssh" / "id_ed25519", {"cwd": home, "env": lab.environment}
    options = ["-F", home / ".ssh" / "config", "-i", key, "-o", f"UserKnownHostsFile={home}/.ssh/known_hosts"]
    ssh: list[object] = ["ssh", *options, "-o", "BatchMode=yes", "-o", "KexAlgorithms=curve25519-sha256", "{}", "true"]
    listed = home / "names"
    listed.write_text("\n".join(names) + "\n", encoding="utf-8")
    inventory = home / "pyinfra_hosts.py"
    data = {"ssh_user": "root", "ssh_key": str(key)}
    inventory.write_text(f"hosts = {[(host.address, data) for host in lab.hosts]!r}\n", encoding="utf-8")
    worker = [sys.executable, "-m", "benchmarks.connect", "--worker"]
    addresses = [host.address for host in lab.hosts]

    def run(how: Callable[..., Figures], argv: Sequence[object]) -> Rival:
        return partial(how, lab.command([str(word) for word in argv]), **place)

    pyinfra = [python.with_name("pyinfra"), "-y", "--parallel", str(AT_ONCE), inventory, "exec", "--", "true"]
    return {
        **{name: run(reported, [*worker, name, home, *names]) for name in COMMANDS},
        OURS: run(reported, [*worker, "ours", small_profile(lab, home)]),
        "OpenSSH under xargs: true": run(program, ["xargs", "-a", listed, "-P", str(AT_ONCE), "-I{}", *ssh]),
        "parallel-ssh: true": run(reported, [python, "-c", PARALLEL_SSH_CODE, key, str(AT_ONCE), *addresses]),
        "pyinfra: true": run(program, pyinfra),
    }


def measured(hosts: int, runs: int, python: Path) -> Table:
    """Measure one number of hosts."""
    lab = Lab.create(hosts, disk="16m", shm="16m")
    try:
        series = in_turn(rivals(lab, python), runs)
    finally:
        lab.destroy()
    return Table(f"{hosts} hosts", BARE, hosts, series)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--worker"]:
        _, _, kind, first, *names = sys.argv
        path = Path(first)
        json.dump(asyncio.run(bare(path, names, COMMANDS[kind]) if kind in COMMANDS else ours(path)), sys.stdout)
        return
    given = words(__doc__ or "", runs=7, sizes=(1, 16, 64, 256))
    with packages(PARALLEL_SSH, PYINFRA) as python:
        tables = [measured(hosts, given.runs, python) for hosts in given.sizes]
    for table in tables:
        second = Aim(f"{OURS}, {SECOND}", 0.2, OURS)
        table.show([Aim(OURS, 1.15, BARE), Aim(f"{OURS}, {CPU}", 1.15, f"{BARE}, {CPU}"), second])
    keep(tables, given.keep)


if __name__ == "__main__":
    main()
