"""The resident memory of this process, as Linux counts it."""

from __future__ import annotations

import threading
import time
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


class Memory:
    """Watches the memory of this process."""

    def __init__(self) -> None:
        self._own = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._own = max(self._own, own_mebibytes())
            time.sleep(0.05)

    def peaks(self) -> dict[str, float]:
        """GiB: the highest resident size, and the highest (seen 20 times a second) without files that are mapped."""
        return {"peak": peak_mebibytes() / 1024, "own peak": self._own / 1024}


def _status(field: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024
