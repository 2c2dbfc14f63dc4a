"""Secrets are hidden wherever they come from: by their value on the controller, by their name on the node."""

from __future__ import annotations

import io
import json

import pytest

from sgdeploy.console.console import Console
from sgdeploy.console.stream import Secrets
from sgdeploy.deploy.events import Note
from sgdeploy.node.keys import hide

VALUE = 'se"cret-4711'


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_a_value_is_hidden_in_whatever_is_written(mode: str) -> None:
    out, err, secrets = io.StringIO(), io.StringIO(), Secrets()
    console = Console("json" if mode == "json" else "plain", out=out, err=err, secrets=secrets)
    secrets.learn({"KEY": VALUE, "SHORT": "abc"})
    console.tell(Note(f"RuntimeError: bad header {VALUE}", "warning"))
    console.line(f"it is {VALUE}, abc", said=f"it is {VALUE}")
    shown = out.getvalue() + err.getvalue()
    assert VALUE not in shown
    assert json.dumps(VALUE)[1:-1] not in shown
    assert shown.count("[KEY hidden]") == 2
    assert "SHORT" not in shown


def test_of_two_values_that_begin_alike_nothing_of_the_longer_is_left() -> None:
    secrets = Secrets()
    secrets.learn({"SHORT": "secret-1", "LONG": "secret-1-and-more"})
    assert secrets.hide("secret-1-and-more, secret-1") == "[LONG hidden], [SHORT hidden]"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("server_args={'api_key': 'abc', 'x': 1}", "server_args={'api_key': '[hidden]', 'x': 1}"),
        ("ServerArgs(api_key='abc', x=1)", "ServerArgs(api_key='[hidden]', x=1)"),
        ("admin_api_key=abc, x=1", "admin_api_key='[hidden]', x=1"),
        ("api_key: abc of config", "api_key: '[hidden]' of config"),
        ("run --api-key abc --port 1", "run --api-key '[hidden]' --port 1"),
        ("run --api-key=abc --port 1", "run --api-key='[hidden]' --port 1"),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer '[hidden]'"),
        ("password=abc; next", "password='[hidden]'; next"),
        ("api_key=None, x=1", "api_key=None, x=1"),
        ("the api key is missing", "the api key is missing"),
        ("max_token_id: 5, tokenizer=3", "max_token_id: 5, tokenizer=3"),
    ],
)
def test_a_name_tells_what_is_a_secret(line: str, shown: str) -> None:
    assert hide(line) == shown


def test_a_line_of_nothing_but_dashes_costs_no_time() -> None:
    line = "-" * 65536 + "api" * 1000
    assert hide(line) == line
