"""The command line: which flags count, what they mean for this process, and how it is refused."""

from __future__ import annotations

import os

from .basics import emit, read_file

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NoReturn

ALIASES = {
    "--model": "--model-path",
    "--tp": "--tp-size",
    "--tensor-parallel-size": "--tp-size",
    "--pp": "--pp-size",
    "--pipeline-parallel-size": "--pp-size",
    "--dp": "--dp-size",
    "--data-parallel-size": "--dp-size",
    "--ep": "--ep-size",
    "--expert-parallel-size": "--ep-size",
    "--nccl-init-addr": "--dist-init-addr",
}


class UsageError(Exception):
    """The command line is one that the engine's own parser refuses (exit code 2)."""


def scan(words: list[str]) -> dict[str, list[str]]:
    """Split a command line by shape: a word that starts with ``--`` is a flag, all until the next are its values."""
    found: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("--") and len(word) > len("--"):
            name, equals, value = word.partition("=")
            values = [value] if equals else []
            found[ALIASES.get(name, name)] = values
        elif values is None:
            raise UsageError("unrecognized arguments: " + word)
        else:
            values.append(word)
    return found


def scan_config(path: str) -> dict[str, list[str]]:
    """Read the ``key: value`` lines of a ``--config`` file as flags."""
    found: dict[str, list[str]] = {}
    try:
        lines = read_file(path).splitlines()
    except OSError as error:
        raise UsageError("argument --config: " + str(error)) from None
    for line in lines:
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip().strip("\"'")
        if not colon or key.startswith("#") or value in {"false", "null"}:
            continue
        name = "--" + key.replace("_", "-")
        found[ALIASES.get(name, name)] = [] if value == "true" else [value]
    return found


class Settings:
    """What the engine reads from its flags, and where this process stands in the cluster."""

    def __init__(self, words: list[str]) -> None:
        """Parse.

        Raises:
            UsageError: as the engine's own parser would, with its wording.
        """
        flags = scan(words)
        if "--config" in flags:
            flags = {**scan_config(self._text(flags, "--config")), **flags}  # the command line wins
        self.flags = flags
        if "--model-path" not in flags:
            raise UsageError("the following arguments are required: --model-path/--model")
        self.model = self._text(flags, "--model-path")
        self.served = self._text(flags, "--served-model-name", self.model)
        self.host = self._text(flags, "--host", "127.0.0.1")
        self.port = self._number("--port", 30000)
        self.nnodes = self._number("--nnodes", 1)
        self.node_rank = self._number("--node-rank", 0)
        self.tp = self._number("--tp-size", 1)
        self.pp = self._number("--pp-size", 1)
        self.dp = self._number("--dp-size", 1)
        self.ep = self._number("--ep-size", 1)
        self.rank_launch = "--tp-rank-in-node" in flags
        self.rank_in_node = self._number("--tp-rank-in-node", 0)
        self.dist_timeout = self._number("--dist-timeout", 1800)  # torch's own default, in seconds
        self.kv_tokens = self._number("--max-total-tokens", 8192)
        self.bootstrap_port = self._number("--disaggregation-bootstrap-port", 8998)
        self.mode = self._text(flags, "--disaggregation-mode", "null")
        self.api_key = self._text(flags, "--api-key", "")
        self.skip_warmup = "--skip-server-warmup" in flags
        self.metrics = "--enable-metrics" in flags
        self.dp_attention = "--enable-dp-attention" in flags
        address, _, port = self._text(flags, "--dist-init-addr", "").rpartition(":")
        self.rendezvous: tuple[str, int] | None = None
        if address and port.isdigit():
            self.rendezvous = (address.strip("[]"), int(port))
        separate = os.environ.get("SGLANG_ENABLE_TOKENIZER_SEPERATE") == "1"
        self.http_only = separate and os.environ.get("SGLANG_LAUNCH_HTTP_ONLY") == "1"
        self.skip_http = separate and not self.http_only and os.environ.get("SGLANG_SKIP_HTTP") == "1"
        self.per_node = max(1, self.tp * self.pp // self.nnodes)
        self.world = self.nnodes * self.per_node
        self.leader = self.node_rank == 0 and self.rank_in_node == 0

    @staticmethod
    def _text(flags: dict[str, list[str]], name: str, default: str | None = None) -> str:
        values = flags.get(name)
        if values:
            return values[0]
        if values is None and default is not None:
            return default
        raise UsageError("argument " + name + ": expected one argument")

    def _number(self, name: str, default: int) -> int:
        text = self._text(self.flags, name, str(default))
        try:
            return int(text)
        except ValueError:
            raise UsageError("argument " + name + ": invalid int value: '" + text + "'") from None

    @property
    def local_ranks(self) -> list[int]:
        """World ranks of this process: one in a rank launch, all of the node in a node launch."""
        first = self.node_rank * self.per_node
        if self.rank_launch:
            return [first + self.rank_in_node]
        return list(range(first, first + self.per_node))

    def label(self, rank: int) -> str:
        """Give the engine's log prefix of a world rank: `` TP3``, `` DP0 PP1 TP3 EP3``, or "" for a single one."""
        tp_rank = rank % self.tp
        parts = []
        if self.dp > 1 and self.dp_attention:
            parts.append(" DP" + str(tp_rank * self.dp // self.tp))
        if self.pp > 1:
            parts.append(" PP" + str(rank // self.tp))
        if self.tp > 1:
            parts.append(" TP" + str(tp_rank))
        if self.ep > 1:
            parts.append(" EP" + str(tp_rank * self.ep // self.tp))
        return "".join(parts)

    def described(self) -> str:
        """Give the text after ``server_args=``; the API key is in it, as in the real one's."""
        shown: dict[str, object] = {"model_path": self.model, "served_model_name": self.served}
        for name, values in self.flags.items():
            if name != "--model-path":
                shown[name[2:].replace("-", "_")] = " ".join(values) if values else True
        return str(shown)


def refuse(reason: str) -> NoReturn:
    """End as the engine's parser does: usage, the reason in the last line, exit code 2."""
    emit("usage: sglang serve [-h] --model-path MODEL_PATH [--host HOST] [--port PORT] [--config CONFIG] …")
    emit("sglang serve: error: " + reason)
    os._exit(2)
