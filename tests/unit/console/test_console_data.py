"""Plans and statuses: read in a minute by people, whole for programs, without secrets."""

from __future__ import annotations

import json
from dataclasses import replace
from textwrap import dedent

from sgdeploy.deploy.events import DeploymentStatus, ProcessStatus
from sgdeploy.paths import data_dir
from sgdeploy.plan.compile import compile_profile
from sgdeploy.plan.model import Plan
from sgdeploy.plan.part import Part
from tests.unit.console.samples import plan, screen


def test_a_plan_for_people() -> None:
    made = screen()
    made.console.plan(plan())
    assert made.err.getvalue() == ""
    text = made.out.getvalue()
    assert text.replace(plan().digest, "sha256:…") == dedent("""\
        big: native on kunpeng-920f, 4 processes on 2 hosts
          engine       kunpeng
          digest       sha256:…
          front door   http://10.0.0.1:30000 (model a, key ${env:MY_KEY})
          time limits  45m00s in all, 10m00s without progress, 20 s to drain

        instances
          STAGE  INSTANCE  HOSTS     PROCESSES  LEADER            RENDEZVOUS
          1      native    n[01-02]  4          n01 (http 30000)  10.0.0.1:5010

        hosts
          HOST  ADDRESS   SSH      PROCESSES  CORES  PORTS
          n01   10.0.0.1  n01.lab  2          20,58  30000-30001
          n02   10.0.0.2  n02.lab  2          20,58  30000-30001

        preparation
          n[01-02]: kernel module sdma from /opt/sdma.ko safe=0
          n[01-02]: hugepages node 0-1 2048kB = 0
          n[01-02]: hugepages of its own before the start of each of 2 processes

        environment
          API_KEY          =  ${env:MY_KEY}
          LD_LIBRARY_PATH  =  /opt/lib:$LD_LIBRARY_PATH
          MODE             =  fast
          RANK             =  0 …   (2 values)

        commands of the leaders (--host HOST shows all of one host)
          native/n01/r00: /opt/engine serve
              --model-path '/models/a b'
              --rank 0
        """)


def test_a_plan_with_a_router_says_whom_it_routes_to() -> None:
    made = screen()
    made.console.plan(compile_profile(data_dir("profiles") / "kunpeng" / "deepseek-v3-two-bucket.yaml").plan)
    text = made.out.getvalue()
    begin = text.index("routing\n")
    assert text[begin : text.index("\n\n", begin)] == dedent("""\
        routing
          ROLE     WORKER                  BOOTSTRAP  SERVED BY      POLICY
          prefill  http://10.0.0.1:30000   9001       prefill/short  bucket
          prefill  http://10.0.0.17:30000  9001       prefill/long
          decode   http://10.0.0.33:30000             decode         cache_aware""")
    assert "  2      router         gw1" in text


def test_the_router_on_its_host_says_what_it_waits_for() -> None:
    made = screen()
    plan_ = compile_profile(data_dir("profiles") / "cpu" / "pd-one-machine.yaml").plan
    made.console.plan(plan_)
    assert "decode   http://127.0.1.2:30000             decode     (the router's default)" in made.out.getvalue()
    made.console.part(plan_, Part(host="127.0.1.4"))
    text = made.out.getvalue()
    assert "    waits for  prefill, decode\n" in text
    assert "    connects   prefill=127.0.1.1:30000, decode=127.0.1.2:30000\n" in text


def test_a_plan_of_256_ranks_stays_short() -> None:
    made = screen()
    made.console.plan(plan(16, 16))
    text = made.out.getvalue()
    assert "256 processes on 16 hosts" in text
    assert "20-590:38" in text
    assert "n[01-16]: kernel module sdma" in text
    assert len(text.splitlines()) < 60


def test_what_one_host_gets() -> None:
    made = screen()
    made.console.part(plan(), Part(host="n02"))
    assert made.out.getvalue() == dedent("""\
        n02 (10.0.0.2): /run/big/n02
          kernel module sdma from /opt/sdma.ko safe=0
          hugepages node 0-1 2048kB = 0

          native/n02/r00: /opt/engine serve
              --model-path '/models/a b'
              --rank 2
            listens    http 30000
            connects   rendezvous=10.0.0.1:5010
            cores      20
            hugepages  node 16 2048kB = 2020
            log        native-n02-r00.log
            MODE             =  fast
            RANK             =  0
            API_KEY          =  ${env:MY_KEY}
            LD_LIBRARY_PATH  =  /opt/lib:$LD_LIBRARY_PATH

          native/n02/r01: /opt/engine serve
              --model-path '/models/a b'
              --rank 3
            listens    http 30001
            connects   rendezvous=10.0.0.1:5010
            cores      58
            hugepages  node 17 2048kB = 2020
            log        native-n02-r01.log
            MODE             =  fast
            RANK             =  1
            API_KEY          =  ${env:MY_KEY}
            LD_LIBRARY_PATH  =  /opt/lib:$LD_LIBRARY_PATH
        """)


def test_a_plan_for_programs_is_the_public_contract() -> None:
    made = screen("json")
    made.console.plan(plan())
    assert Plan.from_json(json.loads(made.out.getvalue())) == plan()
    host = screen("json")
    host.console.part(plan(), Part(host="n02"))
    found = json.loads(host.out.getvalue())
    assert [each["host"] for each in found["hosts"]] == ["n02"]
    assert [each["host"] for each in found["processes"]] == ["n02", "n02"]


def test_what_a_selector_means_comes_host_by_host() -> None:
    made = screen()
    made.console.part(plan(), Part(only=("native",)))
    heads = [line for line in made.out.getvalue().splitlines() if line and not line.startswith("  ")]
    assert heads == ["n01 (10.0.0.1): /run/big/n01", "n02 (10.0.0.2): /run/big/n02"]


ROWS = (
    ProcessStatus("big/native/n01/r00", "n01", "native", "ready", 4711, "warm-up done", 7500.0, "200 in 1.0 s", "ok"),
    ProcessStatus(
        "big/native/n02/r00", "n02", "native", "failed", None, "weights loaded", 12.0, "", "\x1b[2Jgone", "exit code 3"
    ),
)
STATUS = DeploymentStatus(
    "big",
    "degraded",
    "sha256:aa",
    ("the profile's plan differs: 3 processes have other flags",),
    {"n04": "no answer in 10 s"},
    "root@n1 (pid 7)",
    ROWS,
    "http://10.0.0.1:30000",
)


def test_a_status_for_people() -> None:
    made = screen()
    made.console.status(STATUS)
    assert made.out.getvalue() == dedent("""\
        big is degraded: 1 failed · 1 ready
          front door  http://10.0.0.1:30000
          digest      sha256:aa
          warning: the profile's plan differs: 3 processes have other flags
          note: root@n1 (pid 7) is at work on it now
          warning: n04 cannot be asked: no answer in 10 s

        HOST  RANK        STATE   PHASE         AGE    PID   HTTP          LAST LOG LINE
        n01   native/r00  ready   warm-up done  2h05m  4711  200 in 1.0 s  ok
        n02   native/r00  failed  exit code 3   12 s                       gone
        """)


def test_a_deployment_that_is_down() -> None:
    made = screen()
    made.console.status(DeploymentStatus("big", "down", "", (), {}, "", (), "http://10.0.0.1:30000"))
    assert made.out.getvalue() == "big is down\n"


def test_an_overview() -> None:
    made = screen()
    ready = replace(STATUS, name="small", state="ready", drift=(), unreachable={}, locked_by="", processes=ROWS[:1])
    made.console.overview([replace(STATUS, locked_by=""), ready, replace(ready, name="gone", state="down")])
    assert made.out.getvalue() == dedent("""\
        DEPLOYMENT  STATE     PROCESSES     FRONT DOOR             REMARKS
        big         degraded  1 of 2 ready  http://10.0.0.1:30000  1 host unreachable, differs from its profile
        small       ready     1 of 1 ready  http://10.0.0.1:30000
        gone        down
        """)


def test_statuses_for_programs() -> None:
    made = screen("json")
    made.console.status(STATUS)
    assert json.loads(made.out.getvalue())["processes"][1]["reason"] == "exit code 3"
    many = screen("json")
    many.console.overview([STATUS, STATUS])
    assert [json.loads(line)["name"] for line in many.out.getvalue().splitlines()] == ["big", "big"]
