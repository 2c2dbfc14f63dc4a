"""What an operator may write about the router in front of prefill and decode instances.

Defaults are those of sglang-router 0.3.2 and, for the buckets, of the vendor's launch scripts, unless said otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sgdeploy.profile.parts import Section
from sgdeploy.profile.scalars import Cores, Port
from sgdeploy.profile.schema import Env, Flags, Restart

Text = Annotated[str, Field(min_length=1)]
FLAGS = "Flags by their own long names, without the leading dashes; null removes what sgdeploy or the platform sets."
ENV = "Environment variables over those of `engine.env`; null removes one."


class Bucket(Section):
    """The bucket policy: prompts are parted by their length in characters, and the boundary moves with the traffic."""

    balance_abs_threshold: Annotated[int, Field(ge=0)] = Field(
        default=64,
        description="Characters by which the load of two prefill instances in one interval may differ; beyond, and "
        "beyond balance_rel_threshold, a prompt goes to the less loaded one whatever its length.",
    )
    balance_rel_threshold: Annotated[float, Field(ge=0)] = Field(
        default=1.5, description="How many times the load of the less loaded instance the other may have."
    )
    adjust_interval_secs: Annotated[int, Field(ge=1)] = Field(
        default=5, description="Seconds between two looks at the boundary."
    )


class Groups(Section):
    """Grouped routing of newer routers: a fixed prompt length parts the prefill instances."""

    short_count: Annotated[int, Field(ge=1)] = Field(
        default=1, description="How many prefill instances take short prompts: the first ones by ascending URL."
    )
    length_threshold: Annotated[int, Field(ge=1)] = Field(
        default=4096, description="Prompts below this many characters are short."
    )


class TokenizerServers(Section):
    """The HTTP servers on the router's host with `tokenizer: separate`, one for each prefill and decode instance."""

    port: Port | None = Field(default=None, description="Port of the first; the others follow. Default: 30001.")
    flags: Flags = Field(default_factory=dict, description="Engine flags of these servers. " + FLAGS)
    env: Env = Field(default_factory=dict, description=ENV)


class Router(Section):
    """The router: the front door of a deployment with a prefill and decode split."""

    host: Annotated[Text, Field(description="The host that it runs on: a host or address, or a group of one.")]
    port: Port | None = Field(default=None, description="HTTP port; default: the router's own, 30000.")
    version: str = Field(
        default="0.3.2", description="Names the flag catalogue: 0.3.2, or kunpeng for the vendor's sgl-model-gateway."
    )
    python: Text | None = Field(
        default=None, description="Interpreter that has the package sglang-router; default: engine.python."
    )
    binary: Text | None = Field(
        default=None, description="Path of the Rust program (sgl-model-gateway) to run instead of the Python package."
    )
    cores: Cores | None = Field(
        default=None, description="Cores such as 228 or 570-590, or any; default: the platform's (kunpeng-920f 228)."
    )
    policy: Text | None = Field(default=None, description="Policy of both roles; default: cache_aware.")
    prefill_policy: Text | None = Field(default=None, description="Policy among prefill instances; default: policy.")
    decode_policy: Text | None = Field(default=None, description="Policy among decode instances; default: policy.")
    bucket: Bucket | None = Field(default=None, description="Settings of the bucket policy.")
    groups: Groups | None = Field(
        default=None, description="Grouped routing in place of moving buckets; needs a router that has it."
    )
    tokenizer: Literal["inside", "separate"] = Field(
        default="inside",
        description="Whether HTTP and tokenizing happen in the leaders of the instances, or in servers of their own "
        "beside the router (engine kunpeng).",
    )
    tokenizers: TokenizerServers = TokenizerServers()
    flags: Flags = Field(default_factory=dict, description="Router flags. " + FLAGS)
    env: Env = Field(default_factory=dict, description=ENV)
    restart: Restart | None = Field(default=None, description="Restart it when it fails, while `sgdeploy watch` runs.")
