"""TensorBoard's event files: TensorBoard reads them, also those of a run that was resumed."""

from __future__ import annotations

import socket
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mrag_rl.agents.event_file import EventFile


def test_a_resumed_run_replaces_the_points_after_its_checkpoint(tmp_path: Path) -> None:
    for first, value in ((0, 1.5), (3, 7.0)):
        file = EventFile(tmp_path, first_step=first)
        for step in range(first, 5):
            file.add(step, {"batch/loss": value * step, "round/dev": 1})
        file.flush()
        file.close()
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(point.step, point.value) for point in read.Scalars("batch/loss")] == [
        (0, 0.0), (1, 1.5), (2, 3.0), (3, 21.0), (4, 28.0),
    ]  # fmt: skip
    assert [point.step for point in read.Scalars("round/dev")] == [0, 1, 2, 3, 4]
    assert not [path for path in tmp_path.iterdir() if socket.gethostname() in path.name]
