"""The journal of a joint training, the first of its callbacks: `log.jsonl`, TensorBoard and a progress bar."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from tqdm import tqdm

from mrag_rl.agents.callback import Callback
from mrag_rl.agents.event_file import EventFile
from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256, names_path


class BatchNotes:
    """What is observed while one batch of queries is trained on.

    Attributes:
        epsilon_s, epsilon_r: how much the agents explore in this batch.
        replaced: memories whose targets were replaced at once, without a consolidation.
    """

    def __init__(self, epsilon_s: float, epsilon_r: float) -> None:
        self.epsilon_s, self.epsilon_r = epsilon_s, epsilon_r
        self.replaced: list[int] = []
        self._columns: dict[str, list[np.ndarray]] = defaultdict(list)

    def selection(self, partitions: np.ndarray, rewards: np.ndarray, first: np.ndarray, final: np.ndarray) -> None:
        """Add a step of Agent-S: partitions, rewards, and the scores of first and final hypotheses, each (B,)."""
        self._add(partitions=partitions, rewards_s=rewards, first=first, final=final)

    def refinement(self, rewards: np.ndarray, accepted: np.ndarray) -> None:
        """Add a step of Agent-R: rewards and whether the candidate was accepted, each (B,)."""
        self._add(rewards_r=rewards, accepted=accepted)

    def record(
        self, *, round: int, step: int, partitions: int, loss_s: float | None, loss_r: float | None
    ) -> dict[str, Any]:
        """The batch as a line of the log.

        "queries" counts selections: queries times `selection_steps`. Rewards are in the metric's 0..1, scores in
        0..100; "partition_rewards" are sums, to be divided by "partition_counts". "reward_r" is None if no query was
        shown a memory, so that there was nothing to refine.
        """
        columns = {name: np.concatenate(arrays) for name, arrays in self._columns.items()}
        refined = "rewards_r" in columns
        counts = np.bincount(columns["partitions"], minlength=partitions)
        sums = np.bincount(columns["partitions"], weights=columns["rewards_s"], minlength=partitions)
        return {
            "kind": "batch",
            "round": round,
            "step": step,
            "queries": len(columns["partitions"]),
            "reward_s": float(columns["rewards_s"].mean()),
            "reward_r": float(columns["rewards_r"].mean()) if refined else None,
            "first_score": 100.0 * float(columns["first"].mean()),
            "final_score": 100.0 * float(columns["final"].mean()),
            "accepted": int(columns["accepted"].sum()) if refined else 0,
            "epsilon_s": self.epsilon_s,
            "epsilon_r": self.epsilon_r,
            "loss_s": loss_s,
            "loss_r": loss_r,
            "partition_counts": counts.tolist(),
            "partition_rewards": sums.tolist(),
        }

    def _add(self, **columns: np.ndarray) -> None:
        for name, column in columns.items():
            self._columns[name].append(np.asarray(column))


class Journal(Callback):
    """Open log, TensorBoard's file and progress bar of one training; closed at the end of a `with` block."""

    def __init__(
        self,
        folder: Path,
        partition_names: Sequence[str],
        *,
        log_bytes: int,
        log_sha256: str | None = None,
        step: int,
        batches: int,
        done: int,
        show: bool,
    ) -> None:
        """Open them where a checkpoint left them: lines and points written after it are dropped.

        Args:
            folder: gets `log.jsonl` and `tensorboard/`.
            log_bytes: length of the log at the checkpoint. log_sha256: what its hash was then, None if that is not
                known. step: the checkpoint's last step.
            batches: how many the whole training has. done: how many of them are done. show: the progress bar.

        Raises InputError if the log is not what it was at the checkpoint, but for lines after it.
        """
        self.path, self._names = folder / "log.jsonl", partition_names
        self.path.touch()
        with self.path.open("rb") as log:
            start = log.read(log_bytes)
        if len(start) < log_bytes or log_sha256 not in (None, sha256(start).hexdigest()):
            problem = f"{len(start)} bytes of {log_bytes} are left" if len(start) < log_bytes else "it has been changed"
            raise InputError(
                f"{self.path}: not as it was at the last checkpoint ({problem}); restore it from a copy, or remove "
                f"{folder / 'checkpoints'} to train from the start"
            )
        self._files = ExitStack()
        with names_path(self.path):
            os.truncate(self.path, log_bytes)
            self._log = self._files.enter_context(self.path.open("a", encoding="utf-8"))
        try:
            self._points = self._files.enter_context(closing(EventFile(folder / "tensorboard", first_step=step + 1)))
        except BaseException:
            self._files.close()
            raise
        self._bar = tqdm(
            total=batches, initial=done, desc="training", unit="batch", file=sys.stderr,
            disable=not show, dynamic_ncols=True,
        )  # fmt: skip

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        with names_path(self.path) if error is None else suppress(OSError):  # the first error is the one to report
            self._files.close()

    def on_batch(self, record: dict[str, Any]) -> None:
        """Write the record of a batch, and advance the bar."""
        self._write(record)
        self._bar.update()

    def on_round(self, record: dict[str, Any]) -> None:
        """Write the record of a round, and show its development score next to the bar."""
        self._write(record)
        self._bar.set_postfix(dev=f"{record['dev']:.2f}")

    def flush(self) -> tuple[int, str]:
        """Flush the log to disk, and return its length in bytes and its SHA-256. For checkpoints."""
        with names_path(self.path):
            self._log.flush()
            os.fsync(self._log.fileno())
        self._points.flush()
        return self._log.tell(), file_sha256(self.path)

    def history(self) -> list[dict[str, Any]]:
        """The records written so far, those of earlier sessions included."""
        with names_path(self.path):
            self._log.flush()
        with self.path.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def _write(self, record: dict[str, Any]) -> None:
        with names_path(self.path):
            self._log.write(json.dumps(record) + "\n")
        self._points.add(record["step"], scalars(record, self._names))


def scalars(record: Mapping[str, Any], partition_names: Sequence[str]) -> dict[str, float]:
    """The numbers of a record of the log by the names of their curves, such as batch/reward_s or round/dev."""
    values = {
        f"{record['kind']}/{name}": value
        for name, value in record.items()
        if isinstance(value, int | float) and name not in ("round", "step")
    }
    for name in ("partition_counts", "dev_partition_shares"):
        by_partition = zip(partition_names, record.get(name, []), strict=False)
        values |= {f"{name}/{partition}": value for partition, value in by_partition}
    return values
