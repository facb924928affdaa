"""Bad input through the real command lines: one line that says what and how to mend it, status 2, nothing written."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import evaluate
import train
from mrag_rl.data import save_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.models.bundled import NEWSROOM_LLM
from tests.tiny import write_tiny_llm

ROOT = Path(__file__).resolve().parents[1]
SIZES = ["--data.sizes.database=12", "--data.sizes.train=2", "--data.sizes.dev=2", "--data.sizes.test=2"]
ROUND = "name: x\ntraining: {round: 2}\n"
HALF: dict[str, str | bytes] = {"half/config.json": "{}"}
OLD: dict[str, str | bytes] = {"runs/tiny/x": ""}
TOO_MANY = ("--partitioning.method=kmeans", "--partitioning.partitions=50")
UNTRAINED = ("ask", "--run", "run", "--text", "x")
BOMB = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 9))
LINE = {"id": "a", "source": "The council met.", "target": "Council meets."}


@dataclass(frozen=True)
class Case:
    """A command line, run in a folder that holds `llm`, `config.yaml` and `pairs.jsonl`, and what the error says.

    Attributes:
        name: what is wrong. arguments: of the program.
        says: words of the error line. mends: words of its advice.
        files: more files to write first, text or bytes by name. program: train or evaluate.
    """

    name: str
    arguments: Sequence[str]
    says: str
    mends: str
    files: dict[str, str | bytes] = field(default_factory=dict)
    program: str = "train"


def config(*more: str) -> list[str]:
    return ["--config", "config.yaml", *SIZES, *more]


def with_pairs(name: str, text: str | bytes, says: str, mends: str, *more: str) -> Case:
    """A case of a file of pairs."""
    return Case(name, ["--config", "config.yaml", "--data.pairs", "bad.jsonl", *more], says, mends, {"bad.jsonl": text})


def rows(*changes: dict) -> str:
    return "".join(json.dumps(LINE | {"id": str(index)} | change) + "\n" for index, change in enumerate(changes))


def different(count: int) -> list[dict]:
    """Changes that make so many different pairs."""
    return [{"source": f"The council met {number} times."} for number in range(count)]


def without(key: str) -> str:
    return json.dumps({name: value for name, value in LINE.items() if name != key}) + "\n"


CASES = [
    # the command line and the configuration
    Case("no configuration", [], "no configuration", "--config"),
    Case("missing configuration", ["--config", "nowhere.yaml"], "nowhere.yaml", "check the path"),
    Case("broken YAML", ["--config", "bad.yaml"], "bad.yaml:2", "fix that line", {"bad.yaml": "name: x\n  a: [1\n"}),
    Case("unknown key", ["--config", "bad.yaml"], "training.round", "training.rounds?", {"bad.yaml": ROUND}),
    Case("unknown option", config("--agent_s.gama", "1"), "--agent_s.gama", "--agent_s.gamma?"),
    Case("word for a number", config("--training.slots", "many"), "training.slots is many", "a whole number"),
    Case("unknown task", config("--task", "poetry"), "task is poetry", "summarization"),
    Case("unknown partitioning", config("--partitioning.method", "magic"), "magic", "kmeans"),
    Case("unknown system", config("--evaluation.systems", "[naive, magic]"), "magic", "oracle_partition"),
    Case("K of zero", config("--refinement.candidates", "0"), "refinement.candidates is 0", "1 or more"),
    Case("nothing beside", config("--refinement.demonstrated", "true"), "demonstrations 1", "raise demonstrations"),
    Case(
        "no judges",
        config("--refinement.held_out", "true", "--refinement.consolidate", "false"),
        "refinement.held_out is true",
        "the other way",
    ),
    Case("no slots", config("--training.slots", "0"), "training.slots is 0", "1 or more"),
    Case("negative temperature", config("--refinement.temperature=-1"), "refinement.temperature is -1", "0 or more"),
    Case("discount above one", config("--agent_r.gamma", "1.5"), "agent_r.gamma is 1.5", "between 0 and 1"),
    Case("too many resamples", config("--evaluation.bootstrap=100000000000"), "bootstrap is", "1,000,000 at most"),
    Case("too many slots", config("--training.slots=99999999"), "training.slots is 99999999", "1,000,000 at most"),
    Case("an infinite rate", config("--agent_s.learning_rate=.inf"), "learning_rate is inf", "2,147,483,647 at most"),
    Case("a huge seed", config("--seed", str(2**40)), "seed is 1099511627776", "4,294,967,295 at most"),
    Case("deep YAML", ["--config", "bad.yaml"], "bad.yaml:1: more than 32 levels", "simpler", {"bad.yaml": "[" * 3000}),
    Case("a bomb of aliases", ["--config", "bad.yaml"], "bad.yaml:", "simpler", {"bad.yaml": BOMB}),
    Case("a key twice", ["--config", "bad.yaml"], "bad.yaml:2: seed appears twice", "keep one",
         {"bad.yaml": "seed: 1\nseed: 2\n"}),
    Case("no date", ["--config", "bad.yaml"], "bad.yaml", "fix", {"bad.yaml": "name: 2026-13-45\n"}),
    Case("a path for a name", config("--name", "../run"), "../run", "use letters"),
    Case("a run folder that exists", config("--runs", "runs"), "runs/tiny: exists already", "--resume", OLD),
    Case("a file for the runs folder", config("--runs", "taken"), "taken: not a folder", "--runs", {"taken": ""}),
    # data
    Case("no file of pairs", config("--data.pairs", "nowhere.jsonl"), "nowhere.jsonl", "check"),
    with_pairs("broken JSON line", rows({}, {}) + '{"id": "c", \n', "bad.jsonl:3", "one JSON object on each line"),
    with_pairs("a list in place of an object", "[1]\n", "bad.jsonl:1", "write {"),
    with_pairs("no source", without("source"), 'bad.jsonl:1: no "source"', "every line needs"),
    with_pairs("misspelt key", rows({"traget": "x"}), 'unknown key "traget"', 'did you mean "target"?'),
    with_pairs("empty target", rows({}, {"target": " "}), 'bad.jsonl:2: "target" is empty', "remove the line"),
    with_pairs("number for a target", rows({"target": 3}), '"target" is a number', "give a string"),
    with_pairs("duplicate id", rows({"id": "x"}, {}, {"id": "x"}), 'bad.jsonl:3: duplicate id "x"', "its own id"),
    with_pairs("empty file", "\n", "no pair in the file", "one JSON object"),
    with_pairs("NaN", '{"id": "a", "source": "s", "target": "t", "x": NaN}\n', "bad.jsonl:1: NaN", "null"),
    with_pairs("surrogate", '{"id": "a", "source": "s\\ud800", "target": "t"}\n', "bad.jsonl:1: \\ud800", "whole"),
    with_pairs("key twice", '{"id": "a", "source": "s", "target": "t", "id": "b"}\n', '"id" appears twice', "keep one"),
    with_pairs("not UTF-8", b'{"id": "\xff"}\n', "bad.jsonl:1: not UTF-8", "save the file as UTF-8"),
    Case("a table without our columns", ["--config", "config.yaml", "--data.pairs", "bad.csv"], 'no column "source"',
         "--data.columns", {"bad.csv": "document,summary\nd,s\n"}),
    Case("a table with an empty text",
         ["--config", "config.yaml", "--data.pairs=bad.csv", "--data.columns", "{source: document, target: summary}"],
         'bad.csv:2: column "summary" (target) is empty', "remove the row", {"bad.csv": "document,summary\nd,\n"}),
    Case("an unknown column of ours", config("--data.columns", "{sorce: x}"), "--data.columns.sorce",
         "--data.columns.source?"),
    Case("a column that YAML reads as false", config("--data.columns", "{id: no}"), "data.columns.id", "must be text"),
    Case("no folder of splits", config("--data.folder", "nowhere"), "nowhere: no such folder", "check data.folder"),
    with_pairs("too few pairs to split", rows(*different(2)), "2 pairs leave the split", "give more pairs"),
    with_pairs("one pair many times", rows(*[{}] * 40), "groups that stay together (1) of 40 pairs", "give more pairs"),
    with_pairs("fractions above one", rows({}), "leaves no pairs", "less than 1", "--data.fractions.test=0.9"),
    with_pairs("broken group", rows(*[{}] * 40), "is not a regular expression", "try", "--data.group=("),
    with_pairs("labels missing for category", rows(*different(40)), "label", "choose"),
    with_pairs("more partitions than memories", rows(*different(12)), "partitions", "fewer", *TOO_MANY),
    Case("one of four files", config("--data.files.train", "pairs.jsonl"), "data.files.database is missing", "give"),
    Case(
        "pairs and files",
        config("--data.pairs", "pairs.jsonl", "--data.files.test", "pairs.jsonl"),
        "both set",
        "or the four files",
    ),
    # models
    Case("no LLM at the path", config("--llm.name", "/nowhere/llm"), "LLM '/nowhere/llm'", "give a model folder"),
    Case("a folder that is gone", config("--llm.name", "llm/gone"), "LLM 'llm/gone': no such folder", "give a model"),
    Case("a folder above", config("--llm.name", "../gone"), "LLM '../gone': no such folder", "give a model folder"),
    Case("weights elsewhere", config("--llm.name", "half"), "../llm/model.safetensors' is no file of its", "whole",
         {**HALF, "half/a.safetensors": "", "half/model.safetensors.index.json":
          '{"weight_map": {"x": "../llm/model.safetensors"}}'}),
    Case("attention from a hub", config("--llm.name", "half"), "attn_implementation is 'a/b'", "remove that key",
         {"half/config.json": '{"text_config": {"_attn_implementation": "a/b"}}', "half/a.safetensors": ""}),
    Case("an LLM without weights", config("--llm.name", "half"), "no *.safetensors", "save_pretrained", HALF),
    Case("no encoder at the path", config("--encoder.name", "/nowhere/encoder"), "/nowhere/encoder", "give"),
    Case("wrong hash of the encoder", config("--encoder.sha256", "0" * 64), "sha256", "000000"),
    Case("not a hash", config("--encoder.sha256", "xyz"), "encoder.sha256 is not a SHA-256", "64 hexadecimal"),
    # going on, evaluating, asking
    Case("nothing to resume", ["--resume", "runs/none"], "runs/none: no such run folder", "give the folder"),
    Case("no run in the folder", ["--resume", "llm"], "llm: no config.yaml", "give a folder"),
    Case("settings with --resume", ["--resume", "llm", "--seed", "1"], "--resume", "leave out --seed"),
    Case("no command", [], "choose from systems, check, gate, pool, compare, paper, ask", "--help", program="evaluate"),
    Case("pool without output", ["pool", "--runs", "a"], "output is missing", "add --output", program="evaluate"),
    Case("pool of no run", ["pool", "--runs", "a", "--output", "b"], "a: no such run", "give", program="evaluate"),
    Case("unknown command", ["train"], "unknown command train", "choose from systems", program="evaluate"),
    Case("misspelt command", ["sistems"], "unknown command sistems", "did you mean systems?", program="evaluate"),
    Case("no text", ["ask", "--run", "run"], "text is missing", "add --text", program="evaluate"),
    Case("no run", ["systems", "--run", "nowhere"], "nowhere: no such run folder", "give a folder", program="evaluate"),
    Case("a run that is not complete", ["systems", "--run", "run"], "not complete", "--resume run", program="evaluate"),
    Case("an untrained run", UNTRAINED, "no trained database", "--resume", program="evaluate"),
    Case("an empty text", ["ask", "--run", "run", "--text", " "], "--text is empty", "give", program="evaluate"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad")
    pairs = make_newsroom("summarization", seed=0, database=40, train=1, dev=1, test=1).database
    write_tiny_llm(path / "llm", [pair.source for pair in pairs])
    save_pairs(path / "pairs.jsonl", pairs)
    (path / "config.yaml").write_text("name: tiny\nllm: {name: llm}\n")
    (path / "run").mkdir()
    (path / "run" / "config.yaml").write_text("name: tiny\nllm: {name: llm}\n")
    return path


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


def write(folder: Path, files: dict[str, str | bytes]) -> Callable[[], None]:
    """Write files; returns what takes them away again."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)

    def undo() -> None:
        for name in files:
            path = folder / name
            path.unlink()
            while (path := path.parent) != folder and not any(path.iterdir()):
                path.rmdir()

    return undo


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bad_input(
    case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    undo = write(folder, case.files)
    try:
        before = contents(folder)
        status = {"train": train.main, "evaluate": evaluate.main}[case.program](list(case.arguments))
        assert contents(folder) == before
    finally:
        undo()
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert status == 2 and len(said) == 1, said
    assert case.says in said[0] and case.mends in said[0], said[0]


@pytest.mark.parametrize(
    ("arguments", "warnings"),
    [
        (["--data.pairs", "own.jsonl", "--llm.name", "bundled"], 2),
        (["--data.pairs", "own.jsonl", "--llm.name", "llm"], 1),
        ([*SIZES[:3], "--data.sizes.test=30", "--llm.name", "bundled"], 0),
    ],
)
def test_what_makes_figures_meaningless_is_said_before_the_work_begins(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    warnings: int,
) -> None:
    monkeypatch.chdir(folder)
    undo = write(folder, {"own.jsonl": rows(*different(40))})
    try:
        assert train.main(["--config", "config.yaml", *arguments, *TOO_MANY]) == 2
    finally:
        undo()
    said = [line.partition("warning: ")[2] for line in capsys.readouterr().err.splitlines() if "warning: " in line]
    own, few = "the bundled language model knows only the bundled world", "4 test pairs say little; give 30 or more"
    assert len(said) == warnings
    assert all(line.startswith(start) for line, start in zip(said[::-1], (few, own), strict=False))


def test_there_are_thirty_or_more() -> None:
    assert len(CASES) >= 30 and len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("program", ["train.py", "evaluate.py"])
def test_the_process_itself_exits_with_status_2_and_one_line(program: str, folder: Path) -> None:
    arguments = ["--config", "nowhere.yaml"] if program == "train.py" else ["systems", "--run", "nowhere"]
    before = contents(folder)
    done = subprocess.run([sys.executable, ROOT / program, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert contents(folder) == before


def test_a_pickle_in_the_selector_folder_is_never_run(folder: Path, tmp_path: Path) -> None:
    from mrag_rl import Selector
    from mrag_rl.errors import InputError

    class Trap:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "trapped",))

    (tmp_path / "selector").mkdir()
    (tmp_path / "selector" / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match=r"model\.safetensors: a pickle"):
        Selector.load(tmp_path / "selector")
    assert not (tmp_path / "trapped").exists()


def test_the_default_configuration_names_a_model_that_exists() -> None:
    assert (NEWSROOM_LLM / "config.json").is_file()
