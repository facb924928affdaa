"""Places that cannot be written, for root too, and processes to meet them in or to be killed in."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
SKIPPED = 77
_CAPABILITIES = 0x20080522  # the version of the structures that capget and capset take
_WRITE_ANYWHERE = 1 << 1 | 1 << 2 | 1 << 3  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER


def fork(action: Callable[[int], None]) -> tuple[int, int]:
    """Run ``action(pipe)`` in a child process; returns its process id and the reading end of the pipe."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    try:
        action(writing)
    except BaseException:
        os.write(writing, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def exit_status(action: Callable[[], None]) -> tuple[int, str]:
    """Run ``action`` in a child process; its exit status (minus the signal that ended it), and the error it raised."""
    process, reading = fork(lambda pipe: action())
    with os.fdopen(reading) as pipe:
        output = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), output


def begin(command: Callable[[], int], errors: Path) -> int:
    """Run a command in a process of its own, which need not import anything again; returns its id.

    errors: the file that gets what it prints as errors.
    """

    def child(_: int) -> None:
        # Tests that run in the background of a shell inherit that Ctrl-C is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with errors.open("w") as sys.stderr:
            try:
                status = command()
            except SystemExit as exit_:
                status = exit_.code if isinstance(exit_.code, int) else 1
        os._exit(status)

    process, reading = fork(child)
    os.close(reading)
    return process


def stop_when(process: int, ready: Callable[[], bool], how: signal.Signals, errors: Path) -> int:
    """Send a process that was begun a signal as soon as it is ready for that; returns its exit status."""
    deadline = time.monotonic() + 120
    while not ready():
        assert os.waitpid(process, os.WNOHANG) == (0, 0), errors.read_text()
        assert time.monotonic() < deadline, errors.read_text()
        time.sleep(0.005)
    os.kill(process, how)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(process, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, errors.read_text()
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


def in_child(action: Callable[[], None]) -> None:
    """Run ``action`` in a child process, whose limits and mounts are its own."""
    status, output = exit_status(action)
    if status == SKIPPED:
        pytest.skip("not possible on this machine")
    assert status == 0, output


def mount_small_disk(folder: Path, size: str = "1m") -> None:
    """Mount a tmpfs for this process alone, in user and mount namespaces of its own; skips where it may not."""
    user, group = os.getuid(), os.getgid()
    new_user_and_mounts = 0x10000000 | 0x00020000
    try:
        if ctypes.CDLL(None).unshare(new_user_and_mounts):
            os._exit(SKIPPED)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    except (AttributeError, OSError, subprocess.CalledProcessError):
        os._exit(SKIPPED)


def remount(folder: Path, options: str) -> None:
    """Change a disk that `mount_small_disk` mounted: its size, or whether it can be written."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True, capture_output=True)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file can grow beyond ``size`` bytes: an error like a full disk's, for Python ignores SIGXFSZ."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def on_read_only(folder: Path, action: Callable[[], T]) -> T:
    """Run ``action`` while nobody may write to a folder and all in it, root included."""
    modes = {path: path.stat().st_mode for path in [folder, *folder.rglob("*")]}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        with ThreadPoolExecutor(1, initializer=_heed_permissions) as thread:
            return thread.submit(action).result()
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _heed_permissions() -> None:
    """Give up, for this thread alone, the capabilities by which root passes over permissions."""
    if os.getuid() != 0 or not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    header, held = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    for word in (0, 1):  # in effect, and permitted, which access(2) goes by
        held[word] &= ~_WRITE_ANYWHERE
    assert libc.capset(header, held) == 0
