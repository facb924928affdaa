"""TensorBoard's event files, written in the caller's thread.

TensorBoard's own writer has a thread, which prints a traceback when a disk fails, and puts the name of the machine into
that of the file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from mrag_rl.io import names_path


class EventFile:
    """A new file of scalars. Every method raises OSError naming the file."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        """first_step: points from this step on in the folder's other files are replaced, because a run was resumed."""
        self.path = folder / f"events.out.tfevents.{time.time_ns()}"  # files are read in the order of their names
        with names_path(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb")
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        self._write(step=first_step, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add a point to each of some curves."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._write(step=step, summary=Summary(value=values))

    def flush(self) -> None:
        """Let readers see all points."""
        with names_path(self.path):
            self._file.flush()

    def close(self) -> None:
        """Write what is left, and close the file."""
        with names_path(self.path):
            self._file.close()

    def _write(self, **event: Any) -> None:
        with names_path(self.path):
            self._records.write(Event(wall_time=time.time(), **event).SerializeToString())
