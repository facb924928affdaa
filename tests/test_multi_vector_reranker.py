"""Late-interaction models as rerankers: MaxSim as the library and the paper have it, three layouts, nothing unsafe."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

import evaluate
from mrag_rl.data.multi_aspect import save_documents, save_queries
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.extras import MissingExtra
from mrag_rl.models.weights import find_model
from mrag_rl.retrieval import CrossEncoder, MultiVectorReranker, Ranking, TokenIndex, load_reranker
from mrag_rl.retrieval.multi_vector_files import is_multi_vector
from tests.test_rerank import check_equal_scores_and_refusals

WIDTH = 32
LAYOUTS = ("pylate", "pylate without type", "sentence-transformers", "stanford")
QUERIES = ["Who won the cup?", "Why is the harbour closed?"]
TEXTS = [
    "The cup went to a runner from the hill town, who lost a shoe.",
    "Rain.",
    "The harbour is closed: two bridges fell, and nobody was hurt!",
    "Prices rose " + "and rose " * 60,
    "?!",
    "The cup, again.",
]
PAIRS = [(query, text) for query in QUERIES for text in TEXTS]


def change(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def write_bert(folder: Path, make: Callable[[BertConfig], Any] = BertModel, **settings: Any) -> Path:
    """A small BERT with random weights and MiniLM's tokenizer."""
    config = BertConfig(
        hidden_size=WIDTH, num_attention_heads=4, num_hidden_layers=2, intermediate_size=48, vocab_size=30522,
        max_position_embeddings=64, initializer_range=0.3, **settings,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        make(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2")).save_pretrained(folder)
    return folder


def projection() -> torch.Tensor:
    return torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("layouts")
    folders = {name: root / name for name in LAYOUTS}

    pylate = write_bert(folders["pylate"])
    (pylate / "1_Dense").mkdir()
    types = {"": "sentence_transformers.models.Transformer", "1_Dense": "pylate.models.Dense.Dense"}
    modules = [{"idx": i, "name": str(i), "path": path, "type": types[path]} for i, path in enumerate(types)]
    dense = {
        "in_features": WIDTH, "out_features": 16, "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }  # fmt: skip
    stated = {
        "model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 16,
        "document_length": 40, "attend_to_expansion_tokens": False, "skiplist_words": list("!,.:?"),
        "do_query_expansion": True, "prompts": {}, "similarity_fn_name": "MaxSim",
    }  # fmt: skip
    for file, content in (
        ("modules.json", modules),
        ("1_Dense/config.json", dense),
        ("config_sentence_transformers.json", stated),
        ("sentence_bert_config.json", {"max_seq_length": 39, "do_lower_case": False}),
    ):
        (pylate / file).write_text(json.dumps(content))
    save_file({"linear.weight": projection()}, pylate / "1_Dense" / "model.safetensors")

    older = shutil.copytree(pylate, folders["pylate without type"])
    del stated["model_type"]
    (older / "config_sentence_transformers.json").write_text(json.dumps(stated))

    MultiVectorEncoder(str(pylate), device="cpu").save_pretrained(str(folders["sentence-transformers"]))

    stanford = write_bert(folders["stanford"])
    weights = {f"bert.{name}": weight for name, weight in load_file(stanford / "model.safetensors").items()}
    save_file(weights | {"linear.weight": projection()}, stanford / "model.safetensors", {"format": "pt"})
    change(stanford / "config.json", architectures=["HF_ColBERT"])
    metadata = {"query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_maxlen": 16, "doc_maxlen": 40}
    (stanford / "artifact.metadata").write_text(json.dumps(metadata | {"mask_punctuation": True}))
    return folders


@pytest.fixture
def pylate(layouts: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(layouts["pylate"], tmp_path / "pylate")


@pytest.fixture
def stanford(layouts: dict[str, Path], tmp_path: Path) -> Path:
    return shutil.copytree(layouts["stanford"], tmp_path / "stanford")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_are_the_librarys_and_maxsim_by_hand(layouts: dict[str, Path], layout: str) -> None:
    scores = MultiVectorReranker.load(str(layouts[layout])).scores(PAIRS)
    assert scores.shape == (len(PAIRS),) and scores.dtype == np.float32
    model = MultiVectorEncoder(str(layouts[layout]), device="cpu")
    queries: Any = model.encode_query(QUERIES, convert_to_numpy=True)
    texts: Any = model.encode_document(TEXTS, convert_to_numpy=True)
    np.testing.assert_allclose(scores, model.similarity(queries, texts).flatten(), atol=1e-5)
    by_hand = [(query @ text.T).max(axis=1).sum() for query in queries for text in texts]
    np.testing.assert_allclose(scores, by_hand, atol=1e-5)
    assert all(query.shape == (16, 16) for query in queries)  # Filled up with [MASK]
    assert np.std(scores) > 0.05


def test_three_layouts_of_one_model_score_alike_or_as_their_markers_differ(layouts: dict[str, Path]) -> None:
    scores = {layout: MultiVectorReranker.load(str(folder)).scores(PAIRS) for layout, folder in layouts.items()}
    np.testing.assert_allclose(scores["pylate without type"], scores["pylate"], atol=1e-6)
    np.testing.assert_allclose(scores["sentence-transformers"], scores["pylate"], atol=1e-6)
    assert np.abs(scores["stanford"] - scores["pylate"]).max() > 0.01  # [unused0] in place of the three tokens of [Q]


def test_a_score_depends_on_no_other_text_of_the_call(
    layouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = MultiVectorReranker.load(str(layouts["pylate"])).scores(PAIRS)
    alone = MultiVectorReranker.load(str(layouts["pylate"]), batch_size=1)
    np.testing.assert_allclose([alone.scores([pair])[0] for pair in PAIRS], together, atol=1e-4)
    monkeypatch.setattr("mrag_rl.retrieval.multi_vector._BLOCK", 2)
    np.testing.assert_allclose(alone.scores([*PAIRS, *PAIRS[:2]]), [*together, *together[:2]], atol=1e-4)


def test_each_distinct_text_is_encoded_once(layouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = MultiVectorReranker.load(str(layouts["stanford"]))
    seen: list[str] = []

    def counted(encode: Callable[..., Any]) -> Callable[..., Any]:
        def encode_and_note(texts: Sequence[str], **options: Any) -> Any:
            seen.extend(texts)
            return encode(texts, **options)

        return encode_and_note

    for name in ("encode_query", "encode_document"):
        monkeypatch.setattr(model.model, name, counted(getattr(model.model, name)))
    monkeypatch.setattr("mrag_rl.retrieval.multi_vector._BLOCK", 4)
    indices = np.array([[0, 1, 2, 6], [2, 0, 3, 5], [1, 0, 2, 6]])
    model.rerank([*QUERIES, QUERIES[0]], [*TEXTS, TEXTS[0]], Ranking(indices, np.zeros(indices.shape)), 4)
    assert sorted(seen) == sorted([*QUERIES, *(TEXTS[i] for i in (0, 1, 2, 3, 5))])


def test_rankings_follow_the_scores_and_empty_places_stay_last(layouts: dict[str, Path]) -> None:
    model = MultiVectorReranker.load(str(layouts["pylate"]))
    indices = np.array([[5, 4, 3, 2, 1, 0], [3, 0, 2, -1, -1, -1], [-1] * 6])
    result = model.rerank([*QUERIES, "Nothing?"], TEXTS, Ranking(indices, np.zeros(indices.shape)), 4)
    assert result.indices.shape == result.scores.shape == (3, 4)
    for row, query in enumerate(QUERIES):
        ranked = [i for i in indices[row].tolist() if i >= 0]
        scores = dict(zip(ranked, model.scores([(query, TEXTS[i]) for i in ranked]).tolist(), strict=True))
        best = sorted(ranked, key=lambda i: -scores[i])[:4]
        assert result.indices[row].tolist() == best + [-1] * (4 - len(best))
        assert result.scores[row, : len(best)] == pytest.approx([scores[i] for i in best], abs=1e-5)
    assert np.isneginf(result.scores[1, 3]) and np.isneginf(result.scores[2]).all()
    assert (result.indices[2] == -1).all()


def test_equal_scores_keep_their_order_and_impossible_requests_are_refused(layouts: dict[str, Path]) -> None:
    check_equal_scores_and_refusals(MultiVectorReranker.load(str(layouts["pylate"])))
    with pytest.raises(InputError, match="batch_size is 0"):
        MultiVectorReranker.load(str(layouts["pylate"]), batch_size=0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_the_bytes_give_nearly_the_same_scores(layouts: dict[str, Path], dtype: Any) -> None:
    model = MultiVectorReranker.load(str(layouts["stanford"]), dtype=dtype)
    assert {parameter.dtype for parameter in model.model.parameters()} == {getattr(torch, dtype)}
    scores = model.scores(PAIRS)
    assert scores.dtype == np.float32
    expected = MultiVectorReranker.load(str(layouts["stanford"])).scores(PAIRS)
    assert np.corrcoef(scores, expected)[0, 1] > 0.99


@pytest.mark.parametrize("layout", ["pylate", "stanford"])
def test_all_documents_are_ranked_by_the_scores_of_their_pairs(
    layouts: dict[str, Path], layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MultiVectorReranker.load(str(layouts[layout]))
    texts = [*TEXTS, TEXTS[0]]
    scores = model.scores([(query, text) for query in QUERIES for text in texts]).reshape(2, 7)
    monkeypatch.setattr("mrag_rl.retrieval.multi_vector._BLOCK", 4)
    monkeypatch.setattr("mrag_rl.retrieval.multi_vector._QUERIES", 1)
    ranking = TokenIndex(model, texts).search(QUERIES, 5)
    assert ranking.indices.shape == (2, 5)
    np.testing.assert_allclose(ranking.scores, -np.sort(-scores, axis=1)[:, :5], atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(scores, ranking.indices, axis=1), ranking.scores, atol=1e-4)
    first = ranking.indices[0].tolist()
    assert first.index(0) + 1 == first.index(6)  # Equal documents, in their order

    allowed = np.array([[False, True, True, False, False, False, True], [False] * 7])
    some = TokenIndex(model, texts).search(QUERIES, 5, allowed)
    expected = sorted(np.flatnonzero(allowed[0]).tolist(), key=lambda i: -scores[0, i])
    assert some.indices.tolist() == [[*expected, -1, -1], [-1] * 5]
    assert np.isneginf(some.scores[some.indices < 0]).all()
    assert TokenIndex(model, texts).search(QUERIES, 50).indices.shape == (2, 7)


def test_searches_of_all_documents_that_cannot_be_made(layouts: dict[str, Path]) -> None:
    model = MultiVectorReranker.load(str(layouts["pylate"]))
    with pytest.raises(InputError, match="no documents"):
        TokenIndex(model, [])
    index = TokenIndex(model, TEXTS)
    with pytest.raises(InputError, match="fetch is 0"):
        index.search(QUERIES, 0)
    with pytest.raises(InputError, match=r"give booleans of shape \(2, 6\)"):
        index.search(QUERIES, 1, np.ones((1, 6), bool))
    assert len(index.search([], 3)) == 0


def test_the_fingerprint_is_that_of_all_weights_and_settings(layouts: dict[str, Path], tmp_path: Path) -> None:
    def fingerprint(layout: str, change_files: Callable[[Path], Any]) -> str:
        folder = shutil.copytree(layouts[layout], tmp_path / layout, dirs_exist_ok=True)
        change_files(folder)
        return MultiVectorReranker.load(str(folder)).fingerprint

    def scale(file: Path) -> None:
        save_file({name: weight * 1.5 for name, weight in load_file(file).items()}, file, {"format": "pt"})

    pylate = [
        fingerprint("pylate", change_files)
        for change_files in (
            lambda folder: None,
            lambda folder: (folder / "README.md").write_text("No change."),
            lambda folder: scale(folder / "1_Dense" / "model.safetensors"),
            lambda folder: scale(folder / "model.safetensors"),
            lambda folder: change(folder / "config_sentence_transformers.json", query_length=20),
            lambda folder: change(folder / "1_Dense" / "config.json", activation_function="torch.nn.modules.Tanh"),
            lambda folder: change(folder / "sentence_bert_config.json", do_lower_case=True),
        )
    ]
    stanford = [
        fingerprint("stanford", change_files)
        for change_files in (
            lambda folder: None,
            lambda folder: change(folder / "artifact.metadata", query_maxlen=20),
        )
    ]
    assert pylate[0] == pylate[1]
    assert len({*pylate, *stanford}) == len([*pylate, *stanford]) - 1


def refusal(folder: Path) -> str:
    """The error for a model that is not loaded, of one line."""
    with pytest.raises(InputError) as caught:
        load_reranker(str(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def pickle_beside(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"linear.weight": projection()}, folder / "pytorch_model.bin")


def test_pickled_weights_are_refused(pylate: Path, stanford: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.load", lambda *args, **kwargs: pytest.fail("a pickle is read"))
    pickle_beside(pylate / "1_Dense")
    assert "1_Dense: no model.safetensors (pickles are not read); save the model with it" in refusal(pylate)
    shutil.copy(stanford / "model.safetensors", stanford / "model-00001-of-00001.safetensors")
    pickle_beside(stanford)
    assert "stanford: no model.safetensors (pickles are not read)" in refusal(stanford)
    (stanford / "model-00001-of-00001.safetensors").unlink()
    assert "no *.safetensors weights (pickles are not read)" in refusal(stanford)


@pytest.mark.parametrize("name", ["own_layers.Dense", "sentence_transformers.base.modules.Router"])
def test_a_class_of_another_kind_is_refused_and_not_imported(
    name: str, pylate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_layers.py").write_text("raise SystemExit('imported')")
    shutil.copy(tmp_path / "own_layers.py", pylate)
    monkeypatch.syspath_prepend(str(tmp_path))
    listed = json.loads((pylate / "modules.json").read_text())
    third = {"idx": 2, "name": "2", "path": "2_Dense", "type": name}
    (pylate / "modules.json").write_text(json.dumps([*listed, third]))
    assert f"modules.json: {name} cannot be run; choose a model of Transformer, Dense" in refusal(pylate)
    assert "own_layers" not in sys.modules


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        ("config.json", {"auto_map": {"AutoModel": "own.Model"}}, "needs code of its own (own.Model)"),
        ("sentence_bert_config.json", {"model_args": {"weights_only": False}}, "model_args cannot be followed"),
        ("sentence_bert_config.json", {"tokenizer_name_or_path": "/other"}, "tokenizer_name_or_path cannot be"),
        ("1_Dense/config.json", {"activation_function": "torch.hub.load"}, "activation torch.hub.load is none of"),
        ("1_Dense/config.json", {"activation_function": "torch.nn.modules.Linear"}, "Linear is none of torch.nn"),
        ("1_Dense/config.json", {"out_features": 8}, "pylate: cannot be loaded ("),
        ("config.json", {"hidden_size": "wide"}, "pylate: cannot be loaded ("),
        ("config_sentence_transformers.json", {"query_length": -1}, "pylate: cannot be loaded ("),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(
    file: str, changes: dict[str, Any], says: str, pylate: Path
) -> None:
    change(pylate / file, **changes)
    assert says in refusal(pylate)


def test_files_that_are_missing_or_damaged_are_named(pylate: Path, stanford: Path, tmp_path: Path) -> None:
    weights = load_file(stanford / "model.safetensors")
    name = "encoder.layer.1.output.dense.weight"
    rest = {key: weight for key, weight in weights.items() if key != f"bert.{name}" and "pooler" not in key}
    save_file(rest, stanford / "model.safetensors", {"format": "pt"})
    assert f"no weights for {name}; give a folder with all weights" in refusal(stanford)
    save_file(rest | {f"bert.{name}": weights[f"bert.{name}"]}, stanford / "model.safetensors", {"format": "pt"})
    MultiVectorReranker.load(str(stanford))  # A pooler is not needed
    del weights["linear.weight"]
    save_file(weights, stanford / "model.safetensors", {"format": "pt"})
    assert "stanford: cannot be loaded ('linear.weight'); give another model folder" in refusal(stanford)

    (pylate / "adapter_config.json").write_text("{}")
    assert "an adapter of another model; merge the two" in refusal(pylate)
    (pylate / "adapter_config.json").unlink()
    (pylate / "1_Dense" / "model.safetensors").write_bytes(b"no weights")
    assert "pylate: cannot be loaded (" in refusal(pylate)
    listed = json.loads((pylate / "modules.json").read_text())
    for entries, says in (
        (listed[1:], "modules.json: Dense; only the first can and must be a Transformer"),
        ([*listed, listed[1] | {"path": "../1_Dense"}], "Dense in folder '../1_Dense'"),
        ({"0": "Transformer"}, "modules.json: not a list"),
    ):
        (pylate / "modules.json").write_text(json.dumps(entries))
        assert says in refusal(pylate)
    (pylate / "modules.json").write_text(json.dumps(listed))
    (pylate / "1_Dense" / "config.json").write_text("[]")
    assert "config.json: not an object of settings" in refusal(pylate)
    assert "no such folder" in refusal(tmp_path / "nowhere")


def test_the_files_say_which_kind_of_reranker_it_is(layouts: dict[str, Path], tmp_path: Path) -> None:
    for folder in layouts.values():
        assert is_multi_vector(folder) and isinstance(load_reranker(str(folder)), MultiVectorReranker)
    classifier = write_bert(tmp_path / "classifier", BertForSequenceClassification, num_labels=1)
    assert isinstance(load_reranker(str(classifier), dtype="bfloat16"), CrossEncoder)
    # Made into a late-interaction model, an encoder of whole texts would get a projection drawn at random.
    SentenceTransformer(str(write_bert(tmp_path / "bert"))).save(str(tmp_path / "encoder"))
    for folder in (tmp_path / "bert", tmp_path / "encoder"):
        assert "no weights for classifier.bias" in refusal(folder)
        with pytest.raises(InputError, match=r"not a late-interaction model, by its modules\.json and config\.json"):
            MultiVectorReranker.load(str(folder))


def test_without_the_library_the_error_names_the_extra(
    layouts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = r"a late-interaction model needs sentence.transformers.*: pip install 'mrag-rl\[colbert\]'"
    old = ModuleType("sentence_transformers")  # Release 5 has no MultiVectorEncoder
    old.__spec__ = ModuleSpec("sentence_transformers", None)
    for module in (None, old):
        monkeypatch.setitem(sys.modules, "sentence_transformers", module)
        with pytest.raises(MissingExtra, match=message):
            load_reranker(str(layouts["pylate"]))


def test_the_hub_is_asked_for_all_files_of_the_layouts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        "mrag_rl.models.weights.snapshot_download", lambda name, **options: asked.update(options) or str(tmp_path)
    )
    find_model("someone/colbert", role="reranker")
    files = ["artifact.metadata", "1_Dense/model.safetensors", "1_Dense/config.json", "modules.json"]
    pickles = ["pytorch_model.bin", "1_Dense/pytorch_model.bin"]
    allowed = [file for file in (*files, *pickles) if any(fnmatch(file, p) for p in asked["allow_patterns"])]
    assert allowed == files  # The hub's client matches paths by fnmatch, too


def test_progress_is_shown_where_asked_for(layouts: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    model = MultiVectorReranker.load(str(layouts["sentence-transformers"]))
    model.scores(PAIRS)
    assert capsys.readouterr().err == ""
    model.scores(PAIRS, progress=True)
    assert "rerank" in capsys.readouterr().err


def test_evaluate_retrieval_reranks_with_it(
    layouts: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_documents(tmp_path / "d.jsonl", [Document(f"d{i}", text, category="x") for i, text in enumerate(TEXTS)])
    queries = [Query(f"q{i}", text, relevant=(f"d{2 * i}",)) for i, text in enumerate(QUERIES)]
    save_queries(tmp_path / "q.jsonl", queries)
    files = ["--documents", str(tmp_path / "d.jsonl"), "--queries", str(tmp_path / "q.jsonl")]
    files += ["--output", str(tmp_path / "out.json"), "--trec", str(tmp_path / "trec")]
    folder = layouts["stanford"]
    models = ["--reranker", str(folder), "--multi-vector", str(folder)]
    assert evaluate.main(["retrieval", *files, "--strategies", "words", *models]) == 0
    table = capsys.readouterr().out
    model = MultiVectorReranker.load(str(folder))
    results = json.loads((tmp_path / "out.json").read_text())
    assert results["reranker"] == results["multi_vector"] == model.fingerprint
    rows = ("words", "words+rerank", "multi_vector", "multi_vector+rerank")
    assert tuple(results["strategies"]) == rows and all(f"| {name} |" in table for name in rows)
    found: dict[str, dict[str, list[str]]] = {name: {"q0": [], "q1": []} for name in rows}
    for name, lists in found.items():
        for line in (tmp_path / "trec" / f"{name}.run").read_text().splitlines():
            lists[line.split()[0]].append(line.split()[2])
    for query in queries:
        before = [int(document[1:]) for document in found["words"][query.id]]
        scores = model.scores([(query.text, TEXTS[i]) for i in before])
        expected = [f"d{before[place]}" for place in np.argsort(-scores, kind="stable")]
        assert found["words+rerank"][query.id] == expected
        scores = model.scores([(query.text, text) for text in TEXTS])
        expected = [f"d{place}" for place in np.argsort(-scores, kind="stable")]
        assert found["multi_vector"][query.id] == found["multi_vector+rerank"][query.id] == expected
