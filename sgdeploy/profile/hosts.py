"""Host ranges in both notations that operators write, turned into names.

``10.0.0. | 1-3,5`` is the notation of the Kunpeng launch scripts; ``node[01-16,20]`` and ``rack[1-2]n[01-04]`` are
those of Slurm (``-``) and Ansible (``:``). Commas and blanks stand between; zero padding is kept in names and dropped
in addresses, where it means nothing.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from dataclasses import dataclass
from typing import Literal

MAX_HOSTS = 65_536
"""More hosts than this in one text is a slip of the finger."""

_GAP = re.compile(r"[\s,]*")
_WORD = re.compile(r"(?:\[[^\]]*\]|[^\s,|\[\]])+")
_BAR = re.compile(r"\s*\|")
_OCTETS = re.compile(r"(\d+)(?:\s*-\s*(\d+))?(?=[\s,]|$)(?!\s*\|)", re.ASCII)
_PREFIX = re.compile(r"(?:\d{1,3}\.){3}", re.ASCII)
_BRACKET = re.compile(r"\[([^\]]*)\]")
_BRACKETED = re.compile(r"\[([^\]]*)\](?::\d*)?")
_ITEM = re.compile(r"\s*(\d{1,9})(?:\s*[-:]\s*(\d{1,9}))?\s*", re.ASCII)
_DOTTED = re.compile(r"\d+(?:\.\d+)+", re.ASCII)
_NO_LETTER = re.compile(r"[\d.-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PLACEHOLDER = re.compile(r".*xxx.*|x(?:[.:]x)+.*|<.*>?|.*\{\{.*", re.IGNORECASE)
_FILE = re.compile(r".+\.(te?xt|lst|list|hosts|csv|ya?ml|json|ini|conf)", re.IGNORECASE)
_MAX_NAME = 253
_MAX_OCTET = 255


class HostRangeError(ValueError):
    """A text that names no hosts.

    Attributes:
        message: what is wrong, with the part that is.
        offset: where that part begins, in characters from the start of the text.
        width: its length.
        hint: what to write instead, or None.
    """

    def __init__(self, message: str, offset: int, width: int, hint: str | None = None) -> None:
        """Keep what is wrong and which part of the text it is about."""
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.width = width
        self.hint = hint


@dataclass(frozen=True)
class Named:
    """One host that a text names.

    Attributes:
        name: its name or address.
        offset: where the part that names it begins in the text.
        width: length of that part.
        kind: whether it was written as a plain name, as an address, or came out of a range of names.
    """

    name: str
    offset: int
    width: int
    kind: Literal["name", "address", "range"]


def expand(text: str) -> list[str]:
    """Give the names that a text stands for, in order.

    Raises:
        HostRangeError: the text is empty, a range is reversed or broken, an address is none, a host comes twice, a
            placeholder was left in, or there are more than 65,536 hosts.
    """
    return [found.name for found in scan(text)]


def scan(text: str) -> list[Named]:
    """Like ``expand``, and tell which part of the text each name came from.

    Raises:
        HostRangeError: as ``expand``.
    """
    found: list[Named] = []
    position = _skip(text, 0)
    if position == len(text):
        raise HostRangeError("empty: no host is named", 0, max(1, len(text)), 'write a range such as "node[01-16]"')
    while position < len(text):
        word = _WORD.match(text, position)
        if word is None:
            raise _stray(text, position)
        bar = _BAR.match(text, word.end())
        if bar is None:
            found.extend(_word(word.group(), position))
            position = word.end()
        else:
            position = _octets(text, word, bar.end(), found)
        _limit(len(found), 0, len(text))
        position = _skip(text, position)
    _refuse_twice(found)
    return found


def _skip(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _limit(count: int, offset: int, width: int) -> None:
    if count > MAX_HOSTS:
        raise HostRangeError(f"too many hosts: {count:,}, the limit is {MAX_HOSTS:,}", offset, width)


def _stray(text: str, position: int) -> HostRangeError:
    char = text[position]
    if char == "[":
        return HostRangeError("unclosed bracket", position, len(text) - position, "end the range with `]`")
    if char == "]":
        return HostRangeError("a `]` without its `[`", position, 1)
    return HostRangeError("a range without its prefix", position, 1, 'write the prefix first: "10.0.0. | 1-16"')


def _refuse_twice(found: list[Named]) -> None:
    seen: set[str] = set()
    for one in found:
        if one.name in seen:
            raise HostRangeError(f"duplicate host `{one.name}`", one.offset, one.width, "name each host once")
        seen.add(one.name)


def _octets(text: str, word: re.Match[str], position: int, found: list[Named]) -> int:
    """Read ``a.b.c. | 1-3,5`` from behind the bar; give the position behind the last number."""
    prefix = word.group()
    _check_prefix(prefix, word.start())
    some = False
    while (position := _skip(text, position)) < len(text):
        numbers = _OCTETS.match(text, position)
        if numbers is None:
            following = _WORD.match(text, position)
            if following and some and (_BAR.match(text, following.end()) or re.search(r"[.:\[]", following.group())):
                return position
            part = following.group() if following else text[position]
            hint = "after `|` come numbers and ranges, such as 1-3,5"
            raise HostRangeError(f"not a number or range: `{part}`", position, len(part), hint)
        width = len(numbers.group())
        found.extend(Named(f"{prefix}{number}", position, width, "address") for number in _octet_range(numbers))
        some = True
        position = numbers.end()
    if not some:
        width = position - word.start()
        raise HostRangeError(f"prefix without range: `{prefix}`", word.start(), width, f'write "{prefix} | 1-16"')
    return position


def _check_prefix(prefix: str, offset: int) -> None:
    _refuse_placeholder(prefix, offset)
    if _PREFIX.fullmatch(prefix):
        if any(int(octet) > _MAX_OCTET for octet in prefix.split(".")[:-1]):
            raise HostRangeError(f"octet above 255 in `{prefix}`", offset, len(prefix))
        return
    hint = f'write "{prefix}. | 1-16"' if _PREFIX.fullmatch(prefix + ".") else "for names write node[01-16]"
    message = f"the prefix before `|` is three numbers and a dot, such as 10.0.0., not `{prefix}`"
    raise HostRangeError(message, offset, len(prefix), hint)


def _octet_range(numbers: re.Match[str]) -> range:
    offset, width = numbers.start(), len(numbers.group())
    first, last = numbers[1], numbers[2] or numbers[1]
    for octet in (first, last):
        if len(octet.lstrip("0")) > len(str(_MAX_OCTET)) or int(octet) > _MAX_OCTET:
            raise HostRangeError(f"octet above 255: `{octet}`", offset, width)
    return _ordered(first, last, offset, width)


def _ordered(first: str, last: str, offset: int, width: int) -> range:
    if int(first) > int(last):
        raise HostRangeError(f"reversed range `{first}-{last}`", offset, width, f"write {last}-{first}")
    return range(int(first), int(last) + 1)


def _word(word: str, offset: int) -> list[Named]:
    """Read a name, an address, or a name with ranges in brackets."""
    _refuse_brackets(word, offset)
    pieces = _BRACKET.split(word)
    if len(pieces) == 1:
        name, kind = _literal(word, offset)
        return [Named(name, offset, len(word), kind)]
    _refuse_placeholder(word, offset)
    options: list[list[str]] = []
    position, count = offset, 1
    for index, piece in enumerate(pieces):
        if index % 2:
            numbers = _numbers(piece, position + 1)
            count *= sum(len(one) for one, _ in numbers)
            _limit(count, offset, len(word))
            options.append([str(number).zfill(pad) for one, pad in numbers for number in one])
            position += len(piece) + 2
        else:
            options.append([piece])
            position += len(piece)
    names = ["".join(parts) for parts in itertools.product(*options)]
    return [_ranged(name, word, offset) for name in names]


def _ranged(name: str, word: str, offset: int) -> Named:
    if _DOTTED.fullmatch(name):
        octets = ".".join(octet.lstrip("0") or "0" for octet in name.split("."))
        return Named(_address(octets, offset, word), offset, len(word), "address")
    name, kind = _literal(name, offset, word)
    return Named(name, offset, len(word), "range" if kind == "name" else kind)


def _numbers(inside: str, offset: int) -> list[tuple[range, int]]:
    """Read what stands in brackets: ranges, each with the width that its numbers are padded to."""
    found = []
    for part in inside.split(","):
        width = max(1, len(part))
        if not part.strip():
            raise HostRangeError("empty range in brackets", offset, width, "write numbers, such as [01-16,20]")
        if "[" in part:
            raise HostRangeError("a bracket inside a bracket", offset, width)
        item = _ITEM.fullmatch(part)
        if item is None:
            many = re.fullmatch(r"[0-9\s:-]*[0-9]{10}[0-9\s:-]*", part)
            text = "too many hosts" if many else "not a number or range"
            raise HostRangeError(f"{text}: `{part.strip()}`", offset, width, "write numbers, such as [01-16,20]")
        first, last = item[1], item[2] or item[1]
        pad = len(first) if first.startswith("0") else 0
        if last.startswith("0") and len(last) != len(first) and len(last) > 1:
            raise HostRangeError(f"`{part.strip()}` pads its two ends differently", offset, width)
        found.append((_ordered(first, last, offset, width), pad))
        offset += len(part) + 1
    return found


def _literal(word: str, offset: int, shown: str = "") -> tuple[str, Literal["name", "address"]]:
    """Check one name or address."""
    width = len(shown or word)
    _refuse_placeholder(word, offset)
    address = _ipv6(word)
    if address is not None:
        return address, "address"
    if _DOTTED.fullmatch(word):
        if any(len(octet) > 1 and octet.startswith("0") for octet in word.split(".")):
            text = f"leading zero in the address `{word}`"
            raise HostRangeError(text, offset, width, "some programs read 010 as 8; write it without the zero")
        return _address(word, offset, shown), "address"
    if _NO_LETTER.fullmatch(word):
        hint = 'write the prefix too: "10.0.0. | 1-16" or "node[1-16]"'
        raise HostRangeError(f"`{word}` is neither a host name nor an address", offset, width, hint)
    if _FILE.fullmatch(word):
        raise HostRangeError(f"`{word}` looks like a file, not like a host", offset, width, f"write {{file: {word}}}")
    if not _NAME.fullmatch(word) or len(word) > _MAX_NAME or ".." in word:
        raise HostRangeError(f"`{word}` is no host name", offset, width, _name_hint(word))
    return word, "name"


def _address(text: str, offset: int, shown: str = "") -> str:
    width = len(shown or text)
    if any(int(octet) > _MAX_OCTET for octet in text.split(".") if len(octet) < _MAX_NAME):
        raise HostRangeError(f"octet above 255 in `{text}`", offset, width)
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise HostRangeError(f"`{text}` is no IPv4 address: it has four numbers", offset, width) from None


def _ipv6(word: str) -> str | None:
    """Give an IPv6 address in its one canonical spelling, None for anything else."""
    try:
        return str(ipaddress.IPv6Address(word))
    except ValueError:
        return None


def _refuse_brackets(word: str, offset: int) -> None:
    bracketed = _BRACKETED.fullmatch(word)
    address = _ipv6(bracketed[1]) if bracketed else None
    if address is not None:
        hint = f"write {address}: brackets belong only where a port follows, and there they are added"
        raise HostRangeError(f"an IPv6 address in brackets: `{word}`", offset, len(word), hint)


def _refuse_placeholder(word: str, offset: int) -> None:
    if _PLACEHOLDER.fullmatch(word):
        hint = "write the names or addresses of your hosts"
        raise HostRangeError(f"placeholder not filled in: `{word}`", offset, len(word), hint)


def _name_hint(word: str) -> str | None:
    if "@" in word:
        return f"write `{word.partition('@')[2]}`, and the user in the inventory: ssh: {{user: …}}"
    if re.fullmatch(r"[^:]+:\d+", word):
        return "the SSH port belongs in the inventory: ssh: {port: …}"
    if "/" in word:
        return "a file with one host per line is written {file: PATH}"
    return "letters, digits, dots, dashes and underscores"
