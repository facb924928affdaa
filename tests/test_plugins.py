"""Plug-ins by import path: code of one's own in a run; and that nobody else's code runs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

import evaluate
import train as train_command
from mrag_rl import Callback, Config, Selector, plugins, resume, train
from mrag_rl.config import config_sha256, load_config
from mrag_rl.data import save_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import EmbeddingStore, OwnEncoder
from mrag_rl.encoders.own import check_own_encoder
from mrag_rl.errors import InputError
from mrag_rl.generation import CachedLLM
from mrag_rl.generation.own import OwnLLM, check_llm
from mrag_rl.generation.prompts import Prompt, check_task, render
from mrag_rl.io import sealed
from mrag_rl.llm_config import LLMConfig
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import check_metric, get_metric
from mrag_rl.partitioning import fit_own_partitioning
from mrag_rl.partitioning.own import check_partitioner
from mrag_rl.plugins import load_plugin
from mrag_rl.runs.arguments import parse_train_arguments

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
TASK, METRIC, METHOD, ENCODER, LLM, NETWORK = PATHS = [
    f"my_plugins:{name}" for name in ("headlines", "word_overlap", "by_length", "letters", "sketch", "deep")
]


def snippets(language: str) -> list[str]:
    return [text for name, text in SNIPPETS if name == language]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, whose modules are imported anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(plugins, "_loaded", {})
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def imported_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(plugins, "_loaded", {})
    sys.modules.pop("my_plugins", None)


class StopAtOnce(Callback):
    def on_batch(self, record: dict) -> bool:
        return False


def test_the_page_s_plug_ins_train_a_run_that_is_resumed_only_with_the_same_code_and_if_it_is_trusted(
    workplace: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = next(text for text in snippets("python") if "OwnTask" in text)
    (place / "my_plugins.py").write_text(code)
    (place / "own.yaml").write_text(snippets("yaml")[0])
    pairs = make_newsroom("summarization", seed=0, database=60, train=1, dev=1, test=1).database
    save_pairs(place / "pairs.jsonl", pairs)
    small = yaml.safe_load((workplace / "small.yaml").read_text())
    changes = {
        f"{group}.{name}": value
        for group in ("agent_s", "agent_r", "evaluation", "llm", "refinement", "training")
        for name, value in small[group].items()
    } | {"llm.name": LLM}
    config = Config.load("own.yaml", changes)
    run = train(config, callbacks=[StopAtOnce()])
    assert run.stopped and "metric is my_plugins:word_overlap, code of your own in" in capsys.readouterr().err
    (place / "my_plugins.py").write_text(code.replace("max(1,", "max(2,"))
    imported_anew(monkeypatch)
    with pytest.raises(InputError, match="the encoder is not the one that the run began with"):
        resume(run.folder, trust=PATHS, progress=False)
    (place / "my_plugins.py").write_text(code)
    imported_anew(monkeypatch)
    with pytest.raises(InputError, match=r"\(metric: my_plugins:word_overlap\); if you trust"):
        resume(run.folder, trust=[TASK, METHOD, ENCODER, LLM, NETWORK], progress=False)
    assert "my_plugins" not in sys.modules
    assert train_command.main(["--resume", str(run.folder), *(f"--trust={path}" for path in PATHS)]) == 0
    assert capsys.readouterr().out.endswith(
        f'ask --run runs/own --text "..." --trust {TASK} --trust {ENCODER} --trust {LLM}\n'
    )
    results = json.loads((run.folder / "results.json").read_text())
    assert results["task"] == TASK and list(results["systems"]["m_rag"]) == ["rougeL", METRIC]
    assert (run.folder / "results.md").read_text().startswith(f"# {TASK}: ")
    with MemoryDatabase.open(run.folder / "database") as database:
        assert database.names == ["length-0", "length-1", "length-2"]
    selector = Selector.load(run.folder / "selector")
    assert (selector.info.task, selector.info.metric, selector.info.encoder) == (TASK, METRIC, ENCODER)
    assert [layer.kind for layer in selector.hidden] == ["tanh", "linear", "layer_norm", "silu"]
    with pytest.raises(InputError, match="encoder my_plugins:letters: a selector imports no code; if you trust"):
        selector.load_encoder()

    imported_anew(monkeypatch)
    for command in (["compare", "--runs"], ["pool", "--runs"], ["check"]):
        output = [] if command == ["check"] else ["--output", str(place / command[0])]
        assert evaluate.main([*command, str(run.folder), *output]) == 0
    ask = ["ask", "--run", str(run.folder), "--text", pairs[0].source]
    half = [[*ask, "--trust", TASK, ENCODER], [*ask, "--trust", TASK, LLM]]
    for command in (["systems", "--run", str(run.folder)], ask, *half, ["check", str(run.folder)]):
        expected = 0 if command[0] == "check" else 2
        assert evaluate.main(command) == expected
    assert "my_plugins" not in sys.modules and "--trust my_plugins:headlines" in capsys.readouterr().err
    assert evaluate.main([*ask, "--trust", TASK, ENCODER, LLM]) == 0
    assert evaluate.main(["systems", "--run", str(run.folder), "--trust", TASK, METRIC, LLM]) == 0
    assert evaluate.main(["report", str(run.folder)]) == 2 and "if you trust that code" in capsys.readouterr().err
    assert evaluate.main(["report", str(run.folder), "--trust", METRIC]) == 0
    again = json.loads((run.folder / "evaluation" / "results.json").read_text())
    assert again["systems"] == results["systems"]


def test_the_page_s_python_runs(workplace: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = (workplace / "small.yaml").read_text()
    (place / "quickstart").write_text(small)  # a path comes before the name of a configuration
    for text in snippets("python"):
        if "OwnTask" not in text and "Tracker" not in text:  # tests/test_trackers.py runs that one
            exec(compile(text, "docs/plugins.md", "exec"), {"__name__": "docs"})
    shown = capsys.readouterr().out
    assert "| m_rag" in shown and "stopped" in shown
    assert (place / "runs" / "watched" / "results.json").is_file()


def test_code_that_a_downloaded_run_names_is_not_imported(
    small: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its config.yaml, run.json and selector are consistent: nothing but the code itself gives it away."""
    (place / "evil.py").write_text("open('ran', 'w').close()\ndef f(hypotheses, references): return [1.0] * 2\n")
    run = place / "theirs"
    shutil.copytree(small, run)
    text = (run / "config.yaml").read_text().replace("metric: null", "metric: evil:f")
    text = text.replace("task: summarization", "task: evil:f").replace("\n  pairs: null", "\n  pairs: pairs.jsonl")
    text = re.sub(r"^((?:encoder|llm):\n  name:) .*", r"\1 evil:f", text, flags=re.MULTILINE)
    (run / "config.yaml").write_text(text)
    state = json.loads((run / "run.json").read_text())
    state["config_sha256"] = config_sha256(load_config(run / "config.yaml"))
    del state["stages"]["evaluate"]
    (run / "run.json").write_text(json.dumps(sealed({key: value for key, value in state.items() if key != "seal"})))
    assert train_command.main(["--resume", str(run)]) == 2
    assert "theirs: its settings name code (task: evil:f, metric: evil:f, encoder.name: evil:f, llm.name: evil:f)" in (
        capsys.readouterr().err
    )
    state["stages"]["evaluate"] = {"seconds": {}, "llm": {}}
    (run / "run.json").write_text(json.dumps(sealed({key: value for key, value in state.items() if key != "seal"})))
    assert evaluate.main(["systems", "--run", str(run), "--output", str(place / "out")]) == 2
    assert evaluate.main(["ask", "--run", str(run), "--text", "a"]) == 2
    assert capsys.readouterr().err.count("if you trust that code: --trust evil:f\n") == 2
    for command in (["pool", "--runs", str(run)], ["compare", "--runs", str(run)]):
        evaluate.main([*command, "--output", str(place / "out")])
    evaluate.main(["check", str(run)])
    own = ["--config", str(run / "config.yaml"), "--name", "mine", "--data.pairs", str(small / "data" / "train.jsonl")]
    assert train_command.main(own) == 2
    assert "the settings of a run, which name code" in capsys.readouterr().err
    with pytest.raises(InputError, match="the settings of a run, which name code"):
        Config.load(run / "config.yaml")
    assert evaluate.main(["gate", *own]) == 2
    assert "the settings of a run, which name code" in capsys.readouterr().err
    assert not (place / "ran").exists() and "evil" not in sys.modules


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(predictions, references): return [0, 0]", "unexpected keyword|missing a required argument"),
        ("def f(**texts): return [0, 0]", "it has no parameter hypotheses"),
        ("f = 3", "3 is not a callable object"),
        ("def f(hypotheses, references): return 0.5", r"for 2 pairs it returned an array of shape \(\)"),
        ("def f(hypotheses, references): return [1.0]", r"an array of shape \(1,\)"),
        ("def f(hypotheses, references): return [100, 0]", "it returned 100;"),
        ("def f(hypotheses, references): return [float('nan'), 0]", "it returned nan;"),
        ("def f(hypotheses, references): return [None, 'a']", "no numbers"),
        ("def f(hypotheses, references): return [1 / len(h.split()) for h in hypotheses]", "raised ZeroDivisionError"),
    ],
)
def test_a_metric_of_another_form_is_refused_with_the_form_wanted(place: Path, code: str, says: str) -> None:
    (place / "a_metric.py").write_text(f"{code}\n")
    with pytest.raises(InputError, match=says) as caught:
        check_metric(load_plugin("a_metric:f"))
    assert "wanted: def metric(hypotheses: Sequence[str], references: Sequence[str])" in str(caught.value)


def test_partitionings_and_tasks_of_another_form_are_refused(place: Path) -> None:
    (place / "others.py").write_text(
        "from mrag_rl.generation import OwnTask\n"
        "def few(memories, vectors, partitions, seed): return ['a']\n"
        "def numbers(memories, vectors, partitions, seed): return [1, 2]\n"
        "def other(vectors): return ['a', 'b']\n"
        "same = OwnTask('Text', 'Text', 'Write.')\nlines = OwnTask('Text', 'Head\\nline', 'Write.')\n"
        "stop = OwnTask('Text', 'Line', 'Write.', stop='.')\n"
        "metric = OwnTask('Text', 'Line', 'Write.', metrics=('rouge9',))\n"
    )
    pairs = make_newsroom("summarization", seed=0, database=2, train=1, dev=1, test=1).database
    for name, says in (("few", "1 names for 2 memories"), ("numbers", "returned 1 for memory 0, no name")):
        check_partitioner(load_plugin(f"others:{name}"))
        with pytest.raises(InputError, match=f"{says}; wanted: def partition"):
            fit_own_partitioning(f"others:{name}", pairs, np.eye(2), partitions=2, seed=0)
    with pytest.raises(InputError, match=r"wanted: def partition\(memories: Sequence"):
        check_partitioner(load_plugin("others:other"))
    for name, says in (
        ("few", "it is function"),
        ("same", "both labels"),
        ("lines", "one line"),
        ("stop", "tuples"),
        ("metric", "metrics has 'rouge9'; choose from rouge1"),
    ):
        with pytest.raises(InputError, match=f"{says}.*; wanted: OwnTask"):
            check_task(load_plugin(f"others:{name}"))


WRITES = "def f(prompts, max_new_tokens, temperature, seeds, stop):"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(prompts, max_new_tokens): return prompts", "unexpected keyword argument 'temperature'"),
        (f"{WRITES} return 'ab'", "it returned str, no list of texts"),
        (f"{WRITES} return ['a']", "it returned 1 texts for 2 prompts"),
        (f"{WRITES} return ['a', None]", "it returned NoneType for a prompt, no text"),
        (f"{WRITES} return ['a', chr(0xd800)]", "half of a character"),
        (f"{WRITES} return 1 / 0", "with two prompts, it raised ZeroDivisionError"),
    ],
)
def test_a_language_model_of_another_form_is_refused_with_the_form_wanted(place: Path, code: str, says: str) -> None:
    (place / "a_model.py").write_text(f"{code}\n")
    with pytest.raises(InputError, match=f"{says}.*; wanted: def llm"):
        check_llm(load_plugin("a_model:f"))


def test_texts_of_an_own_language_model_depend_on_prompt_and_seed_alone_and_are_cached_by_its_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        f"calls = []\n{WRITES}\n    calls.append(len(prompts))\n"
        "    return [f' {seed} {prompt.split()[1]} {stop[0]} more' for prompt, seed in zip(prompts, seeds)]\n"
    )
    (place / "my_plugins.py").write_text(code)
    prompts = [Prompt("summarization", f"text{i}") for i in range(70)]
    load_plugin("my_plugins:f")
    calls, llm = sys.modules["my_plugins"].calls, OwnLLM("my_plugins:f", stop=["|"])
    assert llm.generate(prompts, samples=2) == [[f"0 text{i}"] * 2 for i in range(70)]
    assert calls == [64, 6] and (llm.usage.prompts, llm.usage.batches) == (70, 2)
    many = llm.generate(prompts, samples=3, temperature=1.0, seeds=[*range(70)])
    assert max(calls[2:]) == 63 and len({text for row in many for text in row}) == 210
    assert llm.generate(prompts[5:6], samples=2, temperature=1.0, seeds=5) == [many[5][:2]]
    with pytest.raises(ValueError, match="samples is 0; give at least 1"):
        llm.generate(prompts, samples=0)
    assert llm.generate(prompts[5:6], samples=2, first=1, temperature=1.0, seeds=5) == [many[5][1:]]
    with CachedLLM(llm, place / "cache.sqlite") as cached:
        before = cached.generate(prompts)
        calls.clear()
        assert cached.generate(prompts) == before and not calls
        with pytest.raises(InputError, match=r"my_plugins:f is a function that gives no log-probabilities\. The state"):
            cached.log_probabilities(prompts[:1], [["x"]])
    (place / "my_plugins.py").write_text(code.replace("more'", "more'.upper()"))
    imported_anew(monkeypatch)
    load_plugin("my_plugins:f")
    with CachedLLM(OwnLLM("my_plugins:f", stop=["|"]), place / "cache.sqlite") as cached:
        assert cached.generate(prompts[:1]) == [["0 TEXT0"]]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(sentences): return np.eye(2)", "missing a required argument: 'sentences'"),
        ("def f(texts): return None", "it returned an array of object"),
        ("def f(texts): return np.ones((len(texts), 3), int)", "it returned an array of int64"),
        ("def f(texts): return np.ones(3)", r"for 2 texts it returned an array of shape \(3,\)"),
        ("def f(texts): return np.ones((1, 3))", r"for 2 texts it returned an array of shape \(1, 3\)"),
        ("def f(texts): return np.full((len(texts), 3), 1e300)", "not finite in float32"),
        ("def f(texts): return np.ones((len(texts), 1 + len(texts)))", r"of \(1, 2\), \(1, 3\) before"),
        ("def f(texts): return np.eye(2)[-len(texts) :]", "the vectors of a text depend on the others of the call"),
        ("def f(texts): return {}[0]", "with two texts, it raised KeyError"),
    ],
)
def test_an_encoder_of_another_form_is_refused_with_the_form_wanted(place: Path, code: str, says: str) -> None:
    (place / "an_encoder.py").write_text(f"import numpy as np\n{code}\n")
    with pytest.raises(InputError, match=f"({says}).*; wanted: def encoder"):
        check_own_encoder(load_plugin("an_encoder:f"))


def test_the_vectors_of_an_own_encoder_are_unit_vectors_by_head_and_side_by_side(place: Path) -> None:
    (place / "vectors.py").write_text(
        "import numpy as np\n"
        "def heads(texts): return np.array([[[len(text), 0.0], [3.0, 4.0]] for text in texts])\n"
        "def one(texts): return np.array([[len(text), 0.0] for text in texts])\n"
    )
    for path in ("vectors:heads", "vectors:one"):
        load_plugin(path)
    encoder = OwnEncoder("vectors:heads")
    found = encoder.encode(["ab", "a", "ab"])
    assert found.standard.dtype == found.heads.dtype == np.float32 and found.encoder == encoder.fingerprint
    np.testing.assert_allclose(found.heads, np.array([[[1, 0], [0.6, 0.8]]] * 3))
    np.testing.assert_allclose(found.norms, [[2, 5], [1, 5], [2, 5]])
    np.testing.assert_allclose(found.standard[0], np.array([2, 0, 3, 4]) / np.sqrt(29), rtol=1e-6)
    np.testing.assert_array_equal(encoder.encode_standard(["", "ab"]), [[0] * 4, found.standard[0]])
    assert encoder.encode([]).shape == (4, 2, 2) and encoder.encode_standard([""]).shape == (1, 4)
    one = OwnEncoder("vectors:one").encode(["abc"] * 300 + ["x"])
    np.testing.assert_array_equal(one.standard, one.heads[:, 0])
    store = EmbeddingStore(encoder, place / "kept")
    np.testing.assert_array_equal(store.encode(["ab"]).heads, store.encode(["ab"]).heads)
    with pytest.raises(InputError, match="text 1 of 2 is empty"):
        encoder.encode(["a", " "])


def test_the_name_of_a_server_s_model_is_no_code_and_what_needs_more_than_texts_is_not_compared() -> None:
    assert not Config("a", llm=LLMConfig("mistral:latest", server="http://127.0.0.1:8000")).plugins
    own = Config("a", llm=LLMConfig("m:f"))
    assert own.plugins == {"llm.name": "m:f"}
    assert set(Config("a").compared) - set(own.compared) == {"m_rag_likely_r"}


def test_what_cannot_be_imported_is_one_line(place: Path) -> None:
    (place / "broken.py").write_text("1 / 0\n")
    (place / "half.py").write_text("import not_there_at_all\n")
    for path, says in (
        ("not_there:f", "install it, or run this in the folder that it is in"),
        ("broken:f", "ZeroDivisionError: division by zero.; mend it"),
        ("half:f", "No module named 'not_there_at_all'.; mend it"),
        ("json:nothing", "has no nothing"),
        ("sys:exit", "is not in a file"),
    ):
        with pytest.raises(InputError, match=says) as caught:
            load_plugin(path)
        assert "\n" not in str(caught.value)


def test_names_import_nothing_where_they_are_looked_up(place: Path) -> None:
    (place / "lazy.py").write_text("def f(hypotheses, references): return [1.0] * len(references)\n")
    metric = get_metric("lazy:f")
    assert metric.resampled(np.array([[0.5], [1.0]]), np.array([[1, 1]])).tolist() == [75.0]
    for use in (lambda: metric.scores(["a"], ["b"]), lambda: render(Prompt("lazy:f", "a"))):
        with pytest.raises(InputError, match="has not been imported; if you trust it"):
            use()
    load_plugin("lazy:f")
    assert metric.corpus(["a"], ["b"]) == 100.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--metric", "rouge9"], "metric is rouge9; it must be one of rouge1, .*, f1, or an import path"),
        (["--metric", "my package:f"], "metric is my package:f; it must be one of"),
        (["--task", "my_plugins:headlines"], "metric is null, but the task my_plugins:headlines is your own"),
        (["--task", "question_answering"], "the bundled world's, which has summarization, translation, dialogue"),
        (["--trust", "my_plugins:f"], "--trust goes with --resume"),
        (["--encoder.name", "m:f", "--encoder.layer", "1"], r"encoder\.layer is set, but encoder\.name m:f is code of"),
        (
            ["--encoder.name", "m:f", "--refinement.dtype", "bfloat16"],
            r"refinement\.dtype is set, but encoder\.name is",
        ),
        (["--llm.name", "m:f", "--llm.device", "cuda"], r"llm\.device is set, but llm\.name m:f is code of your own"),
        (["--llm.name", "m:f", "--refinement.state", "candidates_and_likelihood"], r"log-probabilities; set it to can"),
        (
            ["--llm.name", "m:f", "--evaluation.systems", "naive", "self_rag"],
            r"systems has self_rag, but llm\.name m:f",
        ),
    ],
)
def test_settings_that_name_no_code_or_need_more_are_one_line(options: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_train_arguments(["--config", "quickstart", *options])


def test_exact_match_and_f1_are_squad_s() -> None:
    exact, f1 = get_metric("exact_match"), get_metric("f1")
    assert exact.scores(["The Cat!", "a cat", "cats"], ["cat", "the cat.", "cat"]).tolist() == [1.0, 1.0, 0.0]
    assert f1.scores(["the cat sat", "dog", ""], ["a cat sat down", "cat", "cat"]).tolist() == [0.8, 0.0, 0.0]
    assert f1.corpus(["the cat sat", "dog"], ["a cat sat down", "cat"]) == pytest.approx(40.0)
    assert render(Prompt("question_answering", "Who?", (("What?", "It."),))) == (
        "Question: What?\nAnswer: It.\n\nQuestion: Who?\nAnswer:"
    )
