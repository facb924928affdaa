"""Faults of a disk: system calls that fail in a child process, by order of the kernel, from a chosen write on."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import platform
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.places import fork

_TABLES = {
    "x86_64": {
        "write": 1, "open": 2, "pwrite64": 18, "writev": 20, "sendfile": 40, "fsync": 74, "fdatasync": 75,
        "rename": 82, "mkdir": 83, "unlink": 87, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
        "renameat2": 316, "copy_file_range": 326,
    },
    "aarch64": {
        "mkdirat": 34, "unlinkat": 35, "renameat": 38, "openat": 56, "write": 64, "writev": 66, "pwrite64": 68,
        "sendfile": 71, "fsync": 82, "fdatasync": 83, "renameat2": 276, "copy_file_range": 285,
    },
}  # fmt: skip
_NUMBERS = _TABLES.get(platform.machine(), {}) if sys.platform == "linux" else {}
_FLAGS_AT = {"open": 1, "openat": 2}  # the argument that says whether a file is opened to be written
_CAME = 128  # is added to the exit status of a child whose moment came
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_WRITES = ("write", "pwrite64", "writev", "sendfile", "copy_file_range")
_SYNCS = ("fsync", "fdatasync")
_RENAMES = ("rename", "renameat", "renameat2")
_CHANGES = ("mkdir", "mkdirat", "unlink", "unlinkat", *_RENAMES)


@dataclass(frozen=True)
class Fault:
    """System calls that fail with an error number; without calls, files that cannot grow beyond `size` bytes."""

    name: str
    error: int
    calls: tuple[str, ...] = ()
    size: int = 0

    def happen(self) -> None:
        """From now on, for this process, and for as long as it lives."""
        if not self.calls:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.size))
            return
        _filter_calls(self.calls, self.error)


FAULTS = (
    Fault("EIO", errno.EIO, (*_WRITES, *_SYNCS)),
    Fault("ENOSPC", errno.ENOSPC, _WRITES),
    Fault("sync", errno.EIO, _SYNCS),
    Fault("rename", errno.EIO, _RENAMES),
    Fault("EROFS", errno.EROFS, ("open", "openat", *_CHANGES)),
    Fault("short", errno.EFBIG, size=100),  # the kernel writes the first 100 bytes, and refuses the rest
)


def write_to(part: str) -> Callable[[Callable[[], None]], None]:
    """A moment: when a file whose path contains `part`, or a database in it, is first opened to be written."""

    def watch(act: Callable[[], None]) -> None:
        done = False

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal done
            if done or event not in ("open", "sqlite3.connect"):
                return
            writing = event != "open" or (isinstance(arguments[2], int) and arguments[2] & _TO_WRITE)
            if writing and isinstance(arguments[0], str | Path) and part in str(arguments[0]):
                done = True
                act()

        sys.addaudithook(hook)

    return watch


def call_of(owner: type, name: str) -> Callable[[Callable[[], None]], None]:
    """A moment: when a method is first called."""

    def watch(act: Callable[[], None]) -> None:
        method = getattr(owner, name)

        def first_act(*arguments: object, **keywords: object) -> object:
            setattr(owner, name, method)
            act()
            return method(*arguments, **keywords)

        setattr(owner, name, first_act)

    return watch


def status_with_fault(
    action: Callable[[], int], fault: Fault, moment: Callable[[Callable[[], None]], None]
) -> tuple[int, str, bool]:
    """Run `action` in a child process that meets a fault at a moment and ever after.

    Returns the status that `action` returned, all that the process wrote to stderr, with errors that Python ignored,
    and whether the moment came. Skips where the kernel cannot do this.
    """
    if not _NUMBERS:
        pytest.skip("not possible on this machine")

    def child(pipe: int) -> None:
        os.dup2(pipe, 2)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        came = False

        def act() -> None:
            nonlocal came
            came = True
            fault.happen()

        status = 70
        try:
            gc.freeze()  # what was there before need not be looked through at the end
            moment(act)
            status = action()
            gc.collect()
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status + _CAME * came)

    process, reading = fork(child)
    with os.fdopen(reading) as pipe:
        shown = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert ended >= 0, f"ended by signal {-ended}: {shown}"
    return ended % _CAME, shown, ended >= _CAME


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _filter_calls(calls: Sequence[str], error: int) -> None:
    """Let system calls of this process fail, but for writes to the standard streams (seccomp, mode 2)."""
    load, jump_equal, jump_set, jump_greater, leave = 0x20, 0x15, 0x45, 0x25, 0x06
    allow, fail = (leave, 0, 0, 0x7FFF0000), (leave, 0, 0, 0x00050000 | error)
    program: list[tuple[int, int, int, int]] = []
    for call in calls:
        if call not in _NUMBERS:
            continue
        if call in _FLAGS_AT:
            test = [(load, 0, 0, 16 + 8 * _FLAGS_AT[call]), (jump_set, 0, 1, _TO_WRITE), fail, allow]
        elif call in _WRITES:
            test = [(load, 0, 0, 16), (jump_greater, 0, 1, 2), fail, allow]
        else:
            test = [fail]
        program += [(load, 0, 0, 0), (jump_equal, 0, len(test), _NUMBERS[call]), *test]
    program.append(allow)
    instructions = (_Instruction * len(program))(*(_Instruction(*line) for line in program))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(seccomp, by_filter, ctypes.byref(_Program(len(program), instructions)), 0, 0) == 0
