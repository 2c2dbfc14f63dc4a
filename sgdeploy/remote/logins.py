"""What there is to log in with: looked up only once a login has failed, to say so."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncssh

from sgdeploy.remote.target import DEFAULT_KEYS
from sgdeploy.remote.waits import bounded

if TYPE_CHECKING:
    from sgdeploy.remote.target import Target

AGENT_LIMIT: Final = 2.0


@dataclass(frozen=True)
class Login:
    """Keys for a target.

    Attributes:
        files: private keys that could be used.
        locked: private keys that need a passphrase.
        agent: how many keys the agent holds, None without an agent.
    """

    files: tuple[Path, ...]
    locked: tuple[Path, ...]
    agent: int | None

    @property
    def tried(self) -> str:
        """All of it in words."""
        words = [str(path) for path in self.files]
        if self.agent is not None:
            words.append(f"{self.agent} of the agent")
        return ", ".join(words) or "none (there is no key file and no agent)"


async def login(target: Target) -> Login:
    """Look at the key files and ask the agent; never raises, takes two seconds at most for the agent."""
    files, locked = await asyncio.get_running_loop().run_in_executor(None, _key_files, target)
    return Login(files, locked, await _agent())


def _key_files(target: Target) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    folder = Path("~/.ssh").expanduser()
    candidates = target.keys or tuple(folder / name for name in DEFAULT_KEYS)
    present = [path for path in candidates if path.is_file()]
    locked = tuple(path for path in present if _is_locked(path))
    return tuple(path for path in present if path not in locked), locked


def _is_locked(path: Path) -> bool:
    try:
        asyncssh.read_private_key(path)
    except asyncssh.KeyImportError as error:
        return "passphrase" in str(error).lower()
    except OSError:
        return False
    return False


async def _agent() -> int | None:
    path = os.environ.get("SSH_AUTH_SOCK", "")
    if not path:
        return None
    try:
        return await bounded(_count(path), AGENT_LIMIT)
    except (OSError, ValueError, asyncio.TimeoutError):
        return None


async def _count(path: str) -> int:
    async with asyncssh.connect_agent(path) as agent:
        return len(await agent.get_keys())
