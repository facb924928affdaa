"""What happens to a run whose files were tampered with, and to files of every format that are not what they should be?

    python -m benchmarks.tampering [RUN] [--count 2000] [--resumed 100] [--fuzzed 2000] [--seed 0]

RUN is a finished run, runs/quickstart unless it is named; a small one is faster. It is copied and stays as it is.
First, `count` times, one of its files is changed (a bit, a run of bytes, a truncation, an exchange with another file, a
deletion), `evaluate.py check` looks at it, and everything that the rest of the library reads of a run is read. Each
time is one of:

    identical   what is read is the same, because nothing reads that part
    refused     an error of one line that names the file or its folder
    mended      entries of the cache that were damaged are left out, to be written again, and the others are the same
    silent      something else is read, and nobody says so
    traceback   another error than the one for bad input

Then a training with the same settings is killed after its first checkpoint, and `resumed` times, one of its files is
changed and it is resumed: "identical" if it ends as RUN did, whatever it had to write again.

Then `fuzzed` files of the formats that come from outside are changed in the same ways and read: "loaded" or "refused".
Exits with status 1 if anything is silent, ends in a traceback or takes longer than 10 seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from benchmarks.kill_and_resume import TRAIN, differences, outcome
from mrag_rl import Selector
from mrag_rl.agents.checkpoint import latest_checkpoint
from mrag_rl.command_line import read_yaml
from mrag_rl.commands import train
from mrag_rl.config import config_sha256
from mrag_rl.data import load_pairs
from mrag_rl.data.records import load_documents, load_queries
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.generation.cache import entries
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import read_json, read_jsonl, write_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.partitioning import Partitioning
from mrag_rl.runs import check
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.settings import CheckSettings
from mrag_rl.states import Ledger

SLOW = 10.0
PICTURES = (".png", ".svg")


def change(path: Path, others: list[Path], rng: np.random.Generator) -> str:
    """Change a file at random, and return how."""
    data, how = bytearray(path.read_bytes()), str(rng.choice(["bit", "bytes", "cut", "exchange", "delete", "zeros"]))
    if how == "delete":
        path.unlink()
        return how
    if how == "exchange":
        data = bytearray(others[rng.integers(len(others))].read_bytes())
    elif not data:
        data = bytearray(b"\0")
    elif how == "bit":
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    elif how == "cut":
        del data[int(rng.integers(len(data))) :]
    else:
        start = int(rng.integers(len(data)))
        length = min(len(data) - start, int(rng.integers(1, 64)))
        data[start : start + length] = bytes(length) if how == "zeros" else rng.bytes(length)
    path.write_bytes(data)
    return how


def numbers(*arrays: np.ndarray) -> str:
    """A hash of arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def contents(run: Path) -> dict[str, object]:
    """All that the library reads of a run. Raises InputError."""
    folder = RunFolder(run)
    found: dict[str, object] = {}
    found["config"] = config_sha256(folder.load_config())
    found["state"] = read_json(folder.state)
    for split in ("train", "dev", "test"):
        found[split] = load_pairs(folder.pairs(split))
        vectors = Embeddings.load(folder.embeddings(split))
        found[f"{split} vectors"] = numbers(vectors.standard, vectors.heads, vectors.norms), vectors.encoder
    for part in (folder, *(RunFolder(path) for path in sorted(run.glob("ablations/*")))):
        name = part.root.name
        with MemoryDatabase.open(part.database) as database:
            vectors = database.source_embeddings()
            found[f"{name} database"] = database.digest(), numbers(vectors.standard, vectors.heads)
        found[f"{name} partitioning"] = numbers(Partitioning.load(part.database / "partitioning").membership.toarray())
        if (part.database / "ledger.npz").exists() or part is folder:
            ledger = Ledger.load(part.database / "ledger.npz")
            found[f"{name} ledger"] = numbers(ledger.gains, ledger.queries.standard)
        if part is folder or part.selector.exists():
            selector = Selector.load(part.selector)
            found[f"{name} selector"] = numbers(selector.w1, selector.b1, selector.w2, selector.b2), selector.info
        found[f"{name} log"] = list(read_jsonl(part.log))
        checkpoint = latest_checkpoint(part.root / "checkpoints")
        if checkpoint is not None:
            groups = (checkpoint.arrays[group] for group in sorted(checkpoint.arrays))
            arrays = [group[array] for group in groups for array in sorted(group)]
            found[f"{name} checkpoint"] = checkpoint.step, checkpoint.progress, numbers(*arrays)
    found["answers"] = list(read_jsonl(run / "answers.jsonl"))
    found["results"] = read_json(run / "results.json")
    return found


def whole_entries(path: Path) -> dict[bytes, str | float]:
    """The texts that a cache would hand out."""
    return {key: value for key, value, whole in entries(path) if whole}


def tamper(run: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """What became of so many tamperings, and the bad ones in words."""
    rng, found, bad = np.random.default_rng([seed, 1]), Counter[str](), []
    names = _files(run)
    expected, cached = contents(run), whole_entries(RunFolder(run).cache)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / run.name
        for _ in range(count):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run, copy, ignore=shutil.ignore_patterns(*(f"*{ending}" for ending in PICTURES)))
            name = names[rng.integers(len(names))]
            how = change(copy / name, [copy / other for other in names], rng)
            started = time.perf_counter()
            became, error = _read(copy, name, expected, cached)
            found[became] += 1
            seconds = time.perf_counter() - started
            found["slow"] += seconds > SLOW
            if became in ("silent", "traceback") or seconds > SLOW:
                bad.append(f"{became}: {how} of {name}: {error} ({seconds:.1f} s)")
    return found, bad


def _read(run: Path, name: Path, expected: dict[str, object], cached: dict[bytes, str | float]) -> tuple[str, str]:
    try:
        with redirect_stdout(StringIO()):
            check.run(CheckSettings(str(run)))
        same = contents(run) == expected
        if not same:
            return "silent", "other contents"
        texts = whole_entries(RunFolder(run).cache) if RunFolder(run).cache.is_file() else {}
        if texts != cached:
            return ("mended" if texts.items() <= cached.items() else "silent"), "other texts in the cache"
        return "identical", ""
    except InputError as error:
        line = str(error)
        return ("refused" if "\n" not in line and str(run) in line else "silent"), line
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"


def stopped(run: Path, runs: Path) -> Path:
    """A training with the settings of a run, below another folder, that was killed after its first checkpoint."""
    begun = runs / run.name
    command = [sys.executable, str(TRAIN), "--config", str(run / "config.yaml"), "--runs", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not any((begun / "checkpoints").glob("*[0-9]")):
            time.sleep(0.01)
        process.kill()
    assert not (begun / "results.json").exists(), "it ended before it could be killed"
    return begun


def tamper_and_resume(run: Path, begun: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """What became of a stopped run that was tampered with so many times and resumed, and the bad ones in words.

    run: what it becomes if it is left alone.
    """
    rng, found, bad = np.random.default_rng([seed, 3]), Counter[str](), []
    names, expected = _files(begun), outcome(RunFolder(run))
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / begun.name
        for _ in range(count):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(begun, copy)
            name = names[rng.integers(len(names))]
            how = change(copy / name, [copy / other for other in names], rng)
            became, said = _resume(copy, expected)
            found[became] += 1
            if became in ("silent", "traceback"):
                bad.append(f"{became}: {how} of {name}, resumed: {said}")
    return found, bad


def _resume(run: Path, expected: dict[str, object]) -> tuple[str, str]:
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            status = train(["--resume", str(run)])
        if status:
            errors = [line for line in said.getvalue().splitlines() if line.startswith("error: ")]
            return ("refused" if len(errors) == 1 and str(run) in errors[0] else "silent"), said.getvalue()
        found = outcome(RunFolder(run))
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    other = differences(expected, found)
    return ("silent" if other else "identical"), ", ".join(other)


def _files(run: Path) -> list[Path]:
    """The files of a run that are read again, relative to it."""
    files = (path for path in run.rglob("*") if path.is_file() and path.suffix not in PICTURES)
    return sorted(path.relative_to(run) for path in files)


def readers(run: Path, place: Path) -> Iterator[tuple[str, Path, Callable[[Path], object]]]:
    """Formats that come from outside: a name, a folder or file to copy and change, and what reads it.

    place: gets files that a run has not.
    """
    pairs = load_pairs(run / "data" / "train.jsonl")
    documents = [{"id": pair.id, "title": pair.target, "text": pair.source, "metadata": {"n": 1.5}} for pair in pairs]
    queries = [{"id": pair.id, "text": pair.target, "relevant": [pair.id], "questions": ["Who?"]} for pair in pairs]
    write_jsonl(place / "documents.jsonl", documents)
    write_jsonl(place / "queries.jsonl", queries)
    yield "pairs.jsonl", run / "data" / "train.jsonl", load_pairs
    yield "documents.jsonl", place / "documents.jsonl", load_documents
    yield "queries.jsonl", place / "queries.jsonl", load_queries
    yield "config.yaml", run / "config.yaml", read_yaml
    yield "run.json", run / "run.json", read_json
    yield "embeddings.npz", run / "embeddings" / "dev.npz", Embeddings.load
    yield "ledger.npz", run / "database" / "ledger.npz", Ledger.load
    yield "partitioning", run / "database" / "partitioning", Partitioning.load
    yield "selector", run / "selector", Selector.load
    yield "database", run / "database", _use_database
    yield "language model", Path(RunFolder(run).load_config().llm.path), TransformersLLM.load
    yield "cache.sqlite", RunFolder(run).cache, whole_entries


def _use_database(folder: Path) -> None:
    with MemoryDatabase.open(folder) as database:
        rows = np.arange(len(database))
        vectors = database.source_embeddings()
        database.records(rows)
        database.history(0)
        database.vocabulary().listing()
        database.retrieve(vectors[:3], None, k=2)
        database.states(vectors[:3])
        database.digest()


def fuzz(run: Path, count: int, seed: int) -> tuple[dict[str, Counter[str]], list[str]]:
    """What became of so many files of the formats, spread evenly over them, and the bad ones in words."""
    with tempfile.TemporaryDirectory() as place:
        return _fuzz(list(readers(run, Path(place))), count, np.random.default_rng([seed, 2]))


def _fuzz(
    formats: list[tuple[str, Path, Callable[[Path], object]]], count: int, rng: np.random.Generator
) -> tuple[dict[str, Counter[str]], list[str]]:
    bad: list[str] = []
    found: dict[str, Counter[str]] = {name: Counter() for name, *_ in formats}
    for turn in range(count):
        name, source, read = formats[turn % len(formats)]
        with tempfile.TemporaryDirectory() as place:
            target = Path(place) / source.name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
            files = sorted(path for path in target.rglob("*") if path.is_file()) if target.is_dir() else [target]
            hows = [change(files[rng.integers(len(files))], files, rng)]
            started = time.perf_counter()
            became, said = "loaded", ""
            try:
                read(target)
            except InputError as error:
                became, said = ("refused" if "\n" not in str(error) else "traceback"), str(error)
            except Exception as error:
                became, said = "traceback", f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - started
        found[name][became] += 1
        if became == "traceback" or seconds > SLOW:
            bad.append(f"{became}: {', '.join(hows)} of {name}: {said} ({seconds:.1f} s)")
    return found, bad


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("run", type=Path, nargs="?", default=Path("runs/quickstart"))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--resumed", type=int, default=100)
    parser.add_argument("--fuzzed", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tampered, bad = tamper(arguments.run, arguments.count, arguments.seed)
    print(f"{arguments.count} tamperings: {dict(tampered)}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        begun = stopped(arguments.run, Path(place))
        resumed, wrong = tamper_and_resume(arguments.run, begun, arguments.resumed, arguments.seed)
    print(f"{arguments.resumed} tamperings of a stopped run, resumed: {dict(resumed)}", flush=True)
    formats, worse = fuzz(arguments.run, arguments.fuzzed, arguments.seed)
    for name, counts in formats.items():
        print(f"{name}: {dict(counts)}")
    for line in (*bad, *wrong, *worse):
        print(line)
    return int(bool(bad or wrong or worse))


if __name__ == "__main__":
    sys.exit(main())
