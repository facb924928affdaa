"""A disk that fails: EIO, a full disk, a cut write, a failing sync or rename, a file system that turns read-only.

Whatever is written then: the error is one line that names the place, what was there before is as it was, and the same
work done again leaves what undisturbed work leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.agents.checkpoint import Checkpoint, latest_checkpoint, save_checkpoint
from mrag_rl.agents.event_file import EventFile
from mrag_rl.agents.journal import Journal
from mrag_rl.cache_file import CacheFile
from mrag_rl.command_line import run_command
from mrag_rl.encoders import Embeddings, EmbeddingStore
from mrag_rl.generation.cache import CachedLLM, entries
from mrag_rl.io import atomic_directory, atomic_write_text, read_text
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.store import RecordStore
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.stages import Stages
from mrag_rl.selector import Selector
from mrag_rl.selector_export import export_selector
from tests.faults import FAULTS, Fault, call_of, status_with_fault, write_to
from tests.test_cache import EchoLLM, prompts_of
from tests.test_memory_durability import make, refine_batch, unit_embeddings
from tests.test_selector import INFO, make_states, make_weights
from tests.test_stops import check_whole, resume, stopped_before
from tests.tiny import outcome


@dataclass(frozen=True)
class Write:
    """A kind of write to a folder: what is there before, what changes it, and what a reader then sees."""

    before: Callable[[Path], object]
    change: Callable[[Path], object]
    read: Callable[[Path], object]


def files(folder: Path) -> dict[str, bytes]:
    """All files but what a process that could remove nothing left behind, which no reader looks at."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".tmp" not in str(path.relative_to(folder))
    }


def write_folder(folder: Path, text: str) -> None:
    with atomic_directory(folder / "made") as temporary:
        for name in ("a", "b"):
            (temporary / name).write_text(text * 1000)


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, {"agent": {"w": np.full((20, 30), step, np.float32)}}, {"step": step})


def newest_step(folder: Path) -> int:
    found = latest_checkpoint(folder)
    assert found is not None and (found.arrays["agent"]["w"] == found.step).all()
    return found.step


def export(folder: Path, seed: int) -> None:
    normalizer = StateNormalizer.fit(make_states(50), center=True)
    export_selector(folder / "selector", weights=make_weights(seed), normalizer=normalizer, info=INFO)


def in_database(act: Callable[[MemoryDatabase], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with MemoryDatabase.open(folder / "db") as database:
            act(database)

    return change


def digests(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.glob("[!.]*")):
        with MemoryDatabase.open(path) as database:
            found[path.name] = database.digest()
    return found


def new_database(folder: Path) -> None:
    make(folder / "db").close()


def refined(folder: Path) -> None:
    with make(folder / "db") as database:
        refine_batch(database, 0)
        refine_batch(database, 1)


def ask(count: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with CachedLLM(EchoLLM(), folder / "cache.sqlite") as llm:
            llm.generate(prompts_of(range(count)), max_new_tokens=5)

    return change


def texts_in_cache(folder: Path) -> object:
    path = folder / "cache.sqlite"
    return sorted(entries(path)) if path.is_file() and path.stat().st_size else []


class Numbers:
    """Stands for an encoder: its vectors are drawn by the number of texts."""

    fingerprint = "numbers"

    def encode(self, texts: list[str], **arguments: object) -> Embeddings:
        return unit_embeddings(len(texts), len(texts))


def encode(*counts: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for count in counts:
            EmbeddingStore(Numbers(), folder / "encoded").encode(["text"] * count, prefix="")  # type: ignore[arg-type]

    return change


def begin(folder: Path) -> None:
    RunFolder(folder / "run").create("# a comment\n" * 100)


def begin_stages(folder: Path) -> None:
    Stages(RunFolder(folder), "hash").begin({"llm": "fingerprint"})


def finish_a_stage(folder: Path) -> None:
    Stages(RunFolder(folder), "hash").finish("evaluate", {"total": 1.0})


def note(*steps: int) -> Callable[[Path], None]:
    """Training goes on where the checkpoint left it, for some batches, and comes to the next checkpoint."""

    def change(folder: Path) -> None:
        at = len(logged(folder))
        with Journal(folder, ["a"], log_bytes=at, step=steps[0] - 1, batches=9, done=0, show=False) as journal:
            for step in steps:
                journal.on_batch({"kind": "batch", "step": step, "loss": 0.5, "partition_counts": [step]})
            atomic_write_text(folder / "checkpoint", str(journal.flush()[0]))

    return change


def logged(folder: Path) -> bytes:
    """The log up to the last checkpoint, after which it may have lines that are dropped."""
    at = int(read_text(folder / "checkpoint")) if (folder / "checkpoint").exists() else 0
    return (folder / "log.jsonl").read_bytes()[:at] if at else b""


def nothing(folder: Path) -> None: ...


KINDS = {
    "file": Write(
        lambda folder: atomic_write_text(folder / "a.txt", "old"),
        lambda folder: atomic_write_text(folder / "a.txt", "new" * 1000),
        files,
    ),
    "folder": Write(lambda folder: write_folder(folder, "old"), lambda folder: write_folder(folder, "new"), files),
    "run folder": Write(nothing, begin, files),
    "stages": Write(begin_stages, finish_a_stage, files),
    "checkpoint": Write(
        lambda folder: save_checkpoint(folder, checkpoint(1)),
        lambda folder: save_checkpoint(folder, checkpoint(2)),
        newest_step,
    ),
    "log": Write(note(0, 1), note(2, 3), logged),
    "selector": Write(
        lambda folder: export(folder, 1),
        lambda folder: export(folder, 2),
        lambda folder: Selector.load(folder / "selector").w1.tolist(),
    ),
    "embeddings": Write(
        lambda folder: unit_embeddings(1, 5).save(folder / "dev.npz"),
        lambda folder: unit_embeddings(2, 6).save(folder / "dev.npz"),
        lambda folder: Embeddings.load(folder / "dev.npz").standard.tolist(),
    ),
    "encoded blocks": Write(encode(3), encode(3, 4), files),
    "new cache": Write(nothing, ask(3), texts_in_cache),
    "cache": Write(ask(3), ask(6), texts_in_cache),
    "new database": Write(nothing, new_database, digests),
    "refinement": Write(refined, in_database(lambda database: refine_batch(database, 2)), digests),
    "rollback": Write(refined, in_database(lambda database: database.rollback(0)), digests),
    "revert": Write(refined, in_database(lambda database: database.revert(3, step=2)), digests),
    "snapshot": Write(
        refined, in_database(lambda database: database.copy_to(database.folder.with_name("copy"))), digests
    ),
}
# SQLite's log is not renamed, and waits for the disk only when it is moved into the file: such faults may pass it by.
UNTOUCHED = {(kind, fault) for kind in ("cache", "refinement", "rollback", "revert") for fault in ("sync", "rename")}
UNTOUCHED |= {("new cache", "rename")}


def at_once(act: Callable[[], None]) -> None:
    act()


def of_name(fault: Fault) -> str:
    return fault.name


def error_line(shown: str) -> str:
    """The one line that was shown, but for progress."""
    lines = [line for line in shown.splitlines() if line.strip() and "%|" not in line and not line.startswith("small:")]
    assert len(lines) == 1 and lines[0].startswith("error: "), shown
    return lines[0]


@pytest.mark.parametrize("fault", FAULTS, ids=of_name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_fails_is_one_line_and_what_was_there_stays(kind: str, fault: Fault, tmp_path: Path) -> None:
    write, place, other = KINDS[kind], tmp_path / "place", tmp_path / "other"
    for folder in (place, other):
        folder.mkdir()
        write.before(folder)
    before = write.read(place)
    write.change(other)
    after = write.read(other)

    status, shown, _ = status_with_fault(
        lambda: run_command(lambda: str(write.change(place) or ""), lambda: "", lambda: place), fault, at_once
    )
    if (kind, fault.name) in UNTOUCHED and not status:
        assert write.read(place) == after
        return
    assert status == 2, shown
    line = error_line(shown)
    assert str(place) in line and ".tmp" not in line and "; " in line
    assert write.read(place) == before
    write.change(place)
    assert write.read(place) == after


def test_a_snapshot_that_fails_at_its_partitioning_says_what_failed(tmp_path: Path) -> None:
    refined(tmp_path)
    snapshot = KINDS["snapshot"].change
    status, shown, came = status_with_fault(
        lambda: run_command(lambda: str(snapshot(tmp_path) or ""), lambda: "", lambda: tmp_path),
        next(fault for fault in FAULTS if fault.name == "EIO"),
        write_to("arrays.npz"),
    )
    assert came and status == 2
    assert "the disk reports an error" in error_line(shown)


MOMENTS = {
    "queries": ("prepare", write_to(".dev.npz")),
    "database": ("prepare", write_to("memories.sqlite")),
    "cache": ("train", call_of(CacheFile, "write")),
    "refinement": ("train", call_of(RecordStore, "append")),
    "log": ("train", call_of(Journal, "flush")),
    "tensorboard": ("train", call_of(EventFile, "add")),
    "checkpoint": ("train", write_to("00000002")),
    "selector": ("train", write_to("model.onnx")),
    "answers": ("evaluate", write_to("answers.jsonl")),
    "results": ("evaluate", write_to("results.json")),
}
QUICK = ("database", "cache", "checkpoint", "answers", "results")
"""In every run of the tests; the others are slow ones."""


@pytest.mark.parametrize(
    "moment", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MOMENTS]
)
def test_a_run_that_meets_a_failing_disk_ends_as_an_undisturbed_one(moment: str, small: Path, tmp_path: Path) -> None:
    stage, when = MOMENTS[moment]
    run = stopped_before(stage, small, tmp_path)

    def resume_quietly() -> int:
        with redirect_stdout(StringIO()):
            return resume(run)

    for fault in FAULTS:
        if fault.name not in ("EIO", "short"):  # each kind of write meets the others above
            continue
        status, shown, came = status_with_fault(resume_quietly, fault, when)
        assert (status, came) == (2, True), shown
        assert str(run) in error_line(shown)
        check_whole(run)
    assert resume(run) == 0
    check_whole(run)
    assert outcome(run) == outcome(small)
