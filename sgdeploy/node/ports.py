"""The operation ``ports``: who listens where on this host."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from functools import partial

from .errors import OpError
from .files import MIB, slurp
from .gather import GATHER_LOOK
from .processes import title
from .threads import Later

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .call import Call
    from .errors import Json


class Listener:
    """A TCP socket that listens: its address in numbers ("" for all), port, and inode."""

    __slots__ = ("address", "inode", "port")

    def __init__(self, address: str, port: int, inode: int) -> None:
        """Keep all three."""
        self.address = address
        self.port = port
        self.inode = inode


def listeners() -> list[Listener]:
    """Read all listening TCP sockets of this network namespace."""
    import ipaddress

    found = []
    listening = "0A"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (slurp(table, 32 * MIB) or b"").decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] != listening:
                continue
            host, _, port = fields[1].partition(":")
            # Each 32-bit word stands in the byte order of the machine.
            words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
            address = plain_address(str(ipaddress.ip_address(b"".join(words))))
            found.append(Listener(address, int(port, 16), int(fields[9])))
    return found


def plain_address(text: str) -> str:
    """Give an address in one spelling, "" for "all addresses"; ValueError for a name."""
    import ipaddress

    address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return "" if address.is_unspecified else str(address)


def plain_addresses(text: str) -> set[str]:
    """Give an address, or all that a name leads to, of both families; a name that nobody knows may be any address."""
    import socket

    try:
        return {plain_address(text)}
    except ValueError:
        with contextlib.suppress(OpError):
            found = Later(partial(socket.getaddrinfo, text, None, 0, socket.SOCK_STREAM)).wait(GATHER_LOOK)
            return {plain_address(str(each[4][0])) for each in found}
        return {""}


def socket_owners(inodes: set[int]) -> dict[int, int]:
    """Find which process holds each socket; those of other users are not ours to see."""
    owners: dict[int, int] = {}
    if not inodes:
        return owners
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    found = descriptor.stat()
                    if stat.S_ISSOCK(found.st_mode) and found.st_ino in inodes:
                        owners.setdefault(found.st_ino, pid)
    return owners


def op_ports(call: Call) -> Json:
    """Tell which of these addresses and ports somebody listens on."""
    everybody = listeners()
    hits: list[tuple[Json, int]] = []
    for wanted in call["ports"]:
        addresses: set[str] = set()
        for listener in everybody:
            if listener.port == wanted["port"]:
                addresses = addresses or plain_addresses(wanted["address"])
                if not listener.address or addresses & {"", listener.address}:
                    hits.append((wanted, listener.inode))
    owners = socket_owners({inode for _, inode in hits})
    listening = []
    for wanted, inode in hits:
        pid = owners.get(inode)
        listening.append({**wanted, "pid": pid, "command": None if pid is None else title(pid)})
    return {"listening": listening}
