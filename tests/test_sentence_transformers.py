"""Standard embeddings of models that the present release of sentence-transformers saved: equal, or refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import CNN, Dropout, LayerNorm, Pooling, WordWeights
from torch import nn
from transformers import AutoTokenizer, BertConfig, BertModel, LlamaConfig, LlamaModel

from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.prefixes import Prefixes, stated_prefixes
from mrag_rl.errors import InputError
from mrag_rl.models.weights import find_model

WIDTH = 32
TEXTS = ["The harbour was closed.", "GOAL! Two bridges fell.", "Prices rose " + "and rose " * 40, "Rain."]


@pytest.fixture(scope="module")
def transformers_in(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small random models, saved by transformers with MiniLM's tokenizer."""
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "vocab_size": 30522,
        "max_position_embeddings": 48,
    }
    folders = {}
    for name, model in {"bert": BertModel(BertConfig(**shape)), "llama": LlamaModel(LlamaConfig(**shape))}.items():
        folders[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(folders[name])
        AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2")).save_pretrained(folders[name])
    return folders


def pooled(mode: Any) -> list[nn.Module]:
    return [Pooling(WIDTH, mode)]


def norm(width: int) -> LayerNorm:
    layer = LayerNorm(width)
    nn.init.normal_(layer.norm.weight)
    nn.init.normal_(layer.norm.bias)
    return layer


LAYOUTS: dict[str, list[nn.Module]] = {
    "cls": pooled("cls"),
    "max": pooled("max"),
    "mean": pooled("mean"),
    "mean_sqrt_len": pooled("mean_sqrt_len_tokens"),
    "weightedmean": pooled("weightedmean"),
    "lasttoken": pooled("lasttoken"),
    "two poolings": pooled(("mean", "cls")),
    "all poolings": pooled(("lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean", "cls", "mean")),
    "normalize": [*pooled("mean"), Normalize()],
    "dense": [*pooled("mean"), Dense(WIDTH, 16)],
    "dense without bias": [*pooled("cls"), Dense(WIDTH, 16, bias=False, activation_function=nn.Identity())],
    "dense with relu": [*pooled("max"), Dense(WIDTH, 48, activation_function=nn.ReLU())],
    "dense with gelu": [*pooled("mean"), Dense(WIDTH, WIDTH, activation_function=nn.GELU())],
    "residual": [*pooled("mean"), Dense(WIDTH, WIDTH, use_residual=True)],
    "projected residual": [*pooled("mean"), Dense(WIDTH, 16, use_residual=True)],
    "two dense layers": [*pooled("mean"), Dense(WIDTH, 64), Dense(64, 16, activation_function=None), Normalize()],
    "dense of two poolings": [*pooled(("cls", "mean")), Dense(2 * WIDTH, 16), Normalize()],
    "layer norm": [*pooled("mean"), norm(WIDTH)],
    "normalize before dense": [*pooled("mean"), Normalize(), Dense(WIDTH, 16), norm(16), Normalize()],
    "dropout": [*pooled("mean"), Dropout(0.5), Dense(WIDTH, 16)],
}


def saved(
    folder: Path,
    transformer: Path,
    layers: Sequence[nn.Module],
    *,
    prompts: dict[str, str] | None = None,
    default: str | None = None,
    **settings: Any,
) -> SentenceTransformer:
    first = Transformer(str(transformer), **settings)
    model = SentenceTransformer(
        modules=[first, *layers], device="cpu", prompts=prompts, default_prompt_name=default
    ).eval()
    model.save(str(folder))
    return model


def check_equal(folder: Path, model: SentenceTransformer) -> TransformerEncoder:
    encoder = TransformerEncoder.load(str(folder), truncate=True, batch_tokens=64)
    expected = model.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(TEXTS).standard, expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_standard(TEXTS), expected, atol=1e-5)
    assert encoder.dimension == expected.shape[1] and encoder.heads == 4
    return encoder


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_standard_embeddings_are_those_of_sentence_transformers(
    layout: str, name: str, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    check_equal(tmp_path, saved(tmp_path, transformers_in[name], LAYOUTS[layout]))


PROMPTS = {"query": "Find this: ", "document": "passage:", "topic": "Topic: "}


@pytest.mark.parametrize("include", [True, False], ids=["with prompt", "without prompt"])
@pytest.mark.parametrize("mode", ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_prompts_are_those_of_sentence_transformers(
    name: str, mode: Any, include: bool, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    layers = [Pooling(WIDTH, mode, include_prompt=include), Dense(WIDTH, 16)]
    model = saved(tmp_path, transformers_in[name], layers, prompts=PROMPTS, default="topic")
    encoder = TransformerEncoder.load(str(tmp_path), truncate=True, batch_tokens=64)
    assert encoder.prefixes == Prefixes("Find this: ", "passage:", "Topic: ")
    for encode, prefix in (
        (model.encode, None),
        (model.encode_query, encoder.prefixes.query),
        (model.encode_document, encoder.prefixes.document),
    ):
        expected = encode(TEXTS, normalize_embeddings=True)
        np.testing.assert_allclose(encoder.encode(TEXTS, prefix=prefix).standard, expected, atol=1e-5)
    np.testing.assert_allclose(
        encoder.encode(TEXTS, prefix="").standard, model.encode(TEXTS, prompt="", normalize_embeddings=True), atol=1e-5
    )
    expected = model.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode_standard(TEXTS), expected, atol=1e-5)


def test_prompts_change_the_fingerprint_only_if_they_change_vectors(
    transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    bert, prints = transformers_in["bert"], {}
    for case, include, prompts, default in (
        ("none", True, None, None),
        ("query", True, {"query": "q: "}, None),
        ("default", True, {"query": "q: "}, "query"),
        ("other default", True, {"query": "find: "}, "query"),
        ("not pooled", False, {"query": "q: "}, "query"),
    ):
        saved(tmp_path / case, bert, [Pooling(WIDTH, "mean", include_prompt=include)], prompts=prompts, default=default)
        prints[case] = TransformerEncoder.load(str(tmp_path / case)).fingerprint
    assert prints.pop("query") == prints["none"]  # It is used on request only
    assert len(set(prints.values())) == len(prints)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"prompts": ["query: "]}, '"prompts" must map names to texts'),
        ({"prompts": {"query": 3}}, '"prompts" must map names to texts'),
        ({"prompts": {"query": "q: "}, "default_prompt_name": "find"}, "is 'find', which is not one of \"prompts\""),
    ],
)
def test_prompts_that_cannot_be_read_are_named(
    stated: dict[str, Any], message: str, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    saved(tmp_path, transformers_in["bert"], pooled("mean"))
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(stated))
    with pytest.raises(InputError, match=message):
        TransformerEncoder.load(str(tmp_path))


def test_a_prompt_for_passages_is_that_of_documents(tmp_path: Path) -> None:
    """So the documentation of sentence-transformers says; release 6.2 overlooks it beside an empty one."""
    prompts = {"document": "", "passage": "p: ", "query": None}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    assert stated_prefixes(tmp_path) == Prefixes(document="p: ")
    assert stated_prefixes(tmp_path / "nowhere") == Prefixes()


def test_every_layout_has_a_fingerprint_of_its_own(transformers_in: dict[str, Path], tmp_path: Path) -> None:
    prints = {}
    for layout, layers in LAYOUTS.items():
        saved(tmp_path / layout, transformers_in["bert"], layers)
        prints[layout] = TransformerEncoder.load(str(tmp_path / layout)).fingerprint
    assert prints.pop("normalize") == prints["mean"]  # Every standard embedding is normalised at the end
    assert len(set(prints.values())) == len(prints)


def test_text_is_cut_as_the_files_say(transformers_in: dict[str, Path], tmp_path: Path) -> None:
    model = saved(tmp_path, transformers_in["bert"], pooled("mean"), max_seq_length=12)
    assert check_equal(tmp_path, model).max_length == 12


def test_text_is_lower_cased_as_an_older_file_says(transformers_in: dict[str, Path], tmp_path: Path) -> None:
    cased = tmp_path / "cased"
    shutil.copytree(transformers_in["bert"], cased)
    AutoTokenizer.from_pretrained(cased, do_lower_case=False).save_pretrained(cased)
    upper = saved(tmp_path / "saved", cased, pooled("mean")).encode(TEXTS, normalize_embeddings=True)
    file = tmp_path / "saved" / "sentence_bert_config.json"
    file.write_text(json.dumps({"max_seq_length": 48, "do_lower_case": True}))
    model = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.abs(model.encode(TEXTS, normalize_embeddings=True) - upper).max() > 0.01
    check_equal(tmp_path / "saved", model)


@pytest.mark.parametrize(
    ("older", "mode"),
    [
        (["cls_token"], "cls"),
        (["max_tokens"], "max"),
        (["mean_sqrt_len_tokens"], "mean_sqrt_len_tokens"),
        (["weightedmean_tokens"], "weightedmean"),
        (["lasttoken", "mean_tokens", "cls_token"], ("cls", "mean", "lasttoken")),
    ],
)
def test_an_older_file_of_poolings_says_the_same(
    older: list[str], mode: Any, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    saved(tmp_path, transformers_in["bert"], pooled(mode))
    flags = {f"pooling_mode_{name}": True for name in older} | {"pooling_mode_max_tokens": "max_tokens" in older}
    file = tmp_path / "1_Pooling" / "config.json"
    file.write_text(json.dumps({"word_embedding_dimension": WIDTH, "include_prompt": True, **flags}))
    check_equal(tmp_path, SentenceTransformer(str(tmp_path), device="cpu"))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([CNN(WIDTH, 8), Pooling(8 * 3)], "CNN cannot be run; choose a model of Transformer, Pooling"),
        ([WordWeights(["goal"], {"goal": 2.0}), Pooling(WIDTH)], "WordWeights cannot be run"),
        ([Pooling(WIDTH), Pooling(WIDTH)], "Pooling in place 2; only a Transformer, then a Pooling"),
    ],
)
def test_other_layers_are_refused_by_name(
    layers: list[nn.Module], message: str, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    saved(tmp_path, transformers_in["bert"], layers)
    with pytest.raises(InputError, match=message):
        TransformerEncoder.load(str(tmp_path))


def test_one_encoder_for_queries_and_another_for_documents_is_refused(
    transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    queries, documents = ([Transformer(str(transformers_in["bert"])), *pooled("mean")] for _ in range(2))
    model = SentenceTransformer(modules=[Router.for_query_document(queries, documents)])
    model.save(str(tmp_path))
    with pytest.raises(InputError, match=r"Router cannot be run|no config\.json in the folder"):
        TransformerEncoder.load(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "pooling by median; choose an encoder that pools by cls"),
        ("1_Pooling/config.json", {"pooling_mode": []}, "pooling by nothing"),
        ("2_Dense/config.json", {"activation_function": "os.system"}, "activation os.system is none of torch.nn"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.No"}, "is none of torch.nn"),
        ("2_Dense/config.json", {"module_input_name": "token_embeddings"}, "a dense layer of .*token_embeddings"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "dot"}, "compared by dot; choose an encoder"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(
    file: str, changes: dict[str, Any], message: str, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    saved(tmp_path, transformers_in["bert"], LAYOUTS["dense"])
    (tmp_path / file).write_text(json.dumps(json.loads((tmp_path / file).read_text()) | changes))
    with pytest.raises(InputError, match=message):
        TransformerEncoder.load(str(tmp_path))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "own.Dense"}, "own.Dense cannot be run"),
        ({"path": "../2_Dense"}, "Dense in folder '../2_Dense'"),
        ({"path": None}, 'an entry without "type" and "path"'),
    ],
)
def test_a_list_of_modules_leads_nowhere_else(
    entry: dict[str, Any], message: str, transformers_in: dict[str, Path], tmp_path: Path
) -> None:
    saved(tmp_path, transformers_in["bert"], LAYOUTS["dense"])
    listed = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps([*listed[:2], listed[2] | entry]))
    with pytest.raises(InputError, match=message):
        TransformerEncoder.load(str(tmp_path))


def test_layers_that_do_not_fit_or_have_no_weights_are_named(transformers_in: dict[str, Path], tmp_path: Path) -> None:
    saved(tmp_path, transformers_in["bert"], [*pooled("mean"), Dense(WIDTH, 16), Dense(16, 8)])
    listed = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps([*listed[:2], listed[3]]))
    with pytest.raises(InputError, match="a dense layer reads 16 numbers, but the vector before it has 32"):
        TransformerEncoder.load(str(tmp_path))
    weights = tmp_path / "3_Dense" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(InputError, match=r"3_Dense: no model\.safetensors \(pickles are not read"):
        TransformerEncoder.load(str(tmp_path))
