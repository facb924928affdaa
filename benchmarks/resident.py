"""The resident memory of this process, as Linux counts it."""

from __future__ import annotations

from pathlib import Path


def reset_peak() -> float:
    """Let the peak be the current size, in MiB, which is returned."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mebibytes()


def peak_mebibytes() -> float:
    """The highest size since the last reset, mapped files included."""
    return _status("VmHWM")


def own_mebibytes() -> float:
    """The current size, without files that are mapped."""
    return _status("RssAnon")


def _status(field: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024
