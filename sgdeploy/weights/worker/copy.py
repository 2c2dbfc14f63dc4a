"""Copying pieces into one file at the speed of the file system, through a buffer of fixed size or past it.

Long contiguous pieces go from file to file inside the kernel (``copy_file_range``, else ``sendfile``) unless their
bytes are hashed; then, and for all that is short or cut by columns, they pass through the buffer.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .job import StoppedError
from .shards import Shards

if TYPE_CHECKING:
    from hashlib import _Hash

BUFFER = 1024 * 1024
"""Bytes that are collected before they are hashed and written; a second buffer of this size holds whole rows for column
cuts. One of four times this size no longer stays in the processor's cache, which costs half the speed of hashing."""

DIRECT = 256 * 1024
"""From this length on a piece is worth a call of its own."""

STEP = 64 * 1024 * 1024
"""The most that one call copies, so that an interruption is heard."""

_UNSUPPORTED = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF})


class Copier:
    """One worker's way of writing files; its buffers are made once."""

    def __init__(
        self, shards: Shards, *, hashed: bool, stopped: Callable[[], bool], wrote: Callable[[int], None]
    ) -> None:
        """Make the buffers.

        Args:
            shards: where bytes come from.
            hashed: whether the SHA-256 of each file is computed on the way.
            stopped: asked between calls whether to stop.
            wrote: told how many bytes have been written since it was told last.
        """
        self._shards = shards
        self._hashed = hashed
        self._stopped = stopped
        self._wrote = wrote
        self._buffer = memoryview(bytearray(BUFFER))
        self._rows = memoryview(bytearray(BUFFER))
        self._filled = 0
        self._target = -1
        self._hash: _Hash | None = None
        self._in_kernel = True

    def write(self, target: int, header: bytes, pieces: Iterable[Sequence[int]]) -> str | None:
        """Write a whole file.

        Args:
            target: descriptor of the empty file.
            header: what it begins with.
            pieces: what follows.

        Returns:
            The SHA-256 of the file, None where hashing is off.

        Raises:
            StoppedError: ``stopped`` said so.
            RefusedError: a shard ends too early.
            OSError: a disk failed, or is full.
        """
        self._target, self._filled = target, 0
        self._hash = hashlib.sha256() if self._hashed else None
        self._put(header)
        for shard, offset, rows, take, stride, pad in pieces:
            if shard < 0:
                self._zeros(rows * pad)
            elif rows == 1:
                self._contiguous(shard, offset, take, pad)
            else:
                self._columns(shard, offset, rows, take, stride, pad)
        self._flush()
        return None if self._hash is None else self._hash.hexdigest()

    def _contiguous(self, shard: int, offset: int, left: int, pad: int) -> None:
        if left >= DIRECT and self._hash is None:
            self._flush()
            done = self._past(shard, offset, left)
            offset, left = offset + done, left - done
        while left:
            room = min(left, BUFFER - self._filled)
            self._shards.read_into(shard, offset, self._buffer[self._filled : self._filled + room])
            self._advance(room)
            offset, left = offset + room, left - room
        self._zeros(pad)

    def _past(self, shard: int, offset: int, length: int) -> int:
        """Copy inside the kernel; gives how much was copied, less than asked where the file systems cannot do it."""
        done = 0
        while done < length and self._in_kernel:
            self._check()
            got = self._kernel_copy(shard, offset + done, min(length - done, STEP))
            if got == 0 and self._in_kernel:
                raise self._shards.short(shard)
            done += got
            self._wrote(got)
        return done

    def _kernel_copy(self, shard: int, offset: int, length: int) -> int:
        source = self._shards.descriptor(shard)
        if hasattr(os, "copy_file_range"):  # since Python 3.8
            try:
                return os.copy_file_range(source, self._target, length, offset)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
        try:
            return os.sendfile(self._target, source, offset, length)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        self._in_kernel = False
        return 0

    def _columns(self, shard: int, offset: int, rows: int, take: int, stride: int, pad: int) -> None:
        """Read whole rows and keep a part of each; rows too long for the buffer are read part by part."""
        most = BUFFER // stride
        if most == 0 or take + pad > BUFFER // 2:
            for row in range(rows):
                self._contiguous(shard, offset + row * stride, take, pad)
            return
        zeros = bytes(pad)
        for first in range(0, rows, most):
            # Behind the last row that is read, only what is taken of it need be there.
            span = (min(most, rows - first) - 1) * stride + take
            self._shards.read_into(shard, offset + first * stride, self._rows[:span])
            parts = [self._rows[start : start + take] for start in range(0, span, stride)]
            self._put(zeros.join(parts) + zeros)

    def _put(self, body: bytes) -> None:
        view = memoryview(body)
        while view:
            room = min(len(view), BUFFER - self._filled)
            self._buffer[self._filled : self._filled + room] = view[:room]
            self._advance(room)
            view = view[room:]

    def _zeros(self, count: int) -> None:
        while count:
            room = min(count, BUFFER)
            self._put(bytes(room))
            count -= room

    def _advance(self, count: int) -> None:
        self._filled += count
        if self._filled == BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._check()
        body, self._filled = self._buffer[: self._filled], 0
        if self._hash is not None:
            self._hash.update(body)
        done = 0
        while done < len(body):
            done += os.write(self._target, body[done:])
        self._wrote(len(body))

    def _check(self) -> None:
        if self._stopped():
            raise StoppedError
