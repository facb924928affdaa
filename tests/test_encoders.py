"""The encoder on the real MiniLM, and its heads against attention worked out by hand."""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
)
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from mrag_rl.encoders import Embeddings, EmbeddingStore, TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.models.weights import MINILM_SHA256, find_model
from tests.tiny import encoder as tiny_encoder

TEXTS = [
    "The council voted on the new harbour plan after a long debate about costs, noise and the ferry to the islands.",
    "Goal!",
    "Two bridges were closed by the storm.",
    "A young actor won the prize of the film festival.",
    "The minister said that prices would rise this winter while shops reported lower sales across the northern towns.",
]


@pytest.fixture(scope="module")
def minilm() -> TransformerEncoder:
    return TransformerEncoder.load(batch_tokens=64)


def test_batched_equals_one_at_a_time_in_the_order_given(minilm: TransformerEncoder) -> None:
    batched = minilm.encode(TEXTS)
    assert batched.standard.shape == (5, 384)
    assert batched.heads.shape == (5, 12, 32) == (5, minilm.heads, minilm.head_dimension)
    for i, text in enumerate(TEXTS):
        single = minilm.encode([text])
        np.testing.assert_allclose(batched.standard[i], single.standard[0], atol=1e-5)
        np.testing.assert_allclose(batched.heads[i], single.heads[0], atol=1e-5)


def test_without_padding_a_batch_has_texts_of_one_length(
    minilm: TransformerEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{word} {count} " + "and so on " * (count % 3) for count in range(20) for word in ("harbour", "bridge")]
    alone = np.concatenate([minilm.encode([text]).heads for text in texts])
    shapes, forward = [], minilm.model.forward

    def counting(*, input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> Any:
        assert attention_mask is None
        shapes.append(tuple(input_ids.shape))
        return forward(input_ids=input_ids, attention_mask=attention_mask)

    monkeypatch.setattr(minilm.model, "forward", counting)
    np.testing.assert_allclose(minilm.encode(texts, pad=False).heads, alone, atol=1e-6)
    assert len({length for _, length in shapes}) == 3 and sum(rows for rows, _ in shapes) == len(texts)


def test_rows_are_unit_vectors_of_float32(minilm: TransformerEncoder) -> None:
    embeddings = minilm.encode(TEXTS)
    assert embeddings.standard.dtype == embeddings.heads.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings.standard, axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embeddings.heads, axis=-1), 1, atol=1e-5)


def test_standard_embeddings_are_those_of_sentence_transformers(minilm: TransformerEncoder) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    reference = sentence_transformers.SentenceTransformer(str(find_model("all-MiniLM-L6-v2")), device="cpu")
    np.testing.assert_allclose(minilm.encode_standard(TEXTS), reference.encode(TEXTS), atol=1e-5)


def test_a_repeated_text_is_computed_once(minilm: TransformerEncoder) -> None:
    rows = 0

    def count(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        nonlocal rows
        rows += len(kwargs["input_ids"])

    handle = minilm.model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        embeddings = minilm.encode([TEXTS[1], TEXTS[2], TEXTS[1], TEXTS[1]])
    finally:
        handle.remove()
    assert rows == 2
    np.testing.assert_array_equal(embeddings.heads[0], embeddings.heads[2])
    assert np.abs(embeddings.heads[0] - embeddings.heads[1]).max() > 0.01


def test_encode_standard_is_the_standard_part_and_takes_an_empty_answer(minilm: TransformerEncoder) -> None:
    standard = minilm.encode_standard([*TEXTS, "", "  "])
    np.testing.assert_allclose(standard[:5], minilm.encode(TEXTS).standard, atol=1e-5)
    assert not standard[5:].any()
    assert minilm.encode_standard([]).shape == (0, 384)


@pytest.mark.parametrize(("stated", "token"), [("cls_token", 0), ("lasttoken", -1)])
def test_the_standard_embedding_is_pooled_as_the_models_files_state(
    minilm: TransformerEncoder, tmp_path: Path, stated: str, token: int
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(find_model("all-MiniLM-L6-v2"), folder)
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(f'{{"word_embedding_dimension": 384, "pooling_mode_{stated}": true}}')
    encoder = TransformerEncoder.load(str(folder), batch_tokens=64)
    embeddings = encoder.encode(TEXTS)
    for i, ids in enumerate(token_rows(encoder, TEXTS)):
        with torch.inference_mode():
            hidden = encoder.model(ids).last_hidden_state[0]
        np.testing.assert_allclose(embeddings.standard[i], normalize(hidden[token], dim=-1), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_standard(TEXTS), embeddings.standard, atol=1e-5)
    np.testing.assert_array_equal(embeddings.heads, minilm.encode(TEXTS).heads)
    assert encoder.fingerprint != minilm.fingerprint
    pooling.write_text('{"pooling_mode_cls_token": true, "pooling_mode_median_tokens": true}')
    with pytest.raises(InputError, match="pooling by cls and median_tokens; choose"):
        TransformerEncoder.load(str(folder))


def test_an_empty_text_is_refused_by_its_number(minilm: TransformerEncoder) -> None:
    with pytest.raises(InputError, match="text 1 of 3 is empty"):
        minilm.encode(["a", " \n", "b"])


def test_what_is_no_list_of_unicode_texts_is_refused(minilm: TransformerEncoder) -> None:
    with pytest.raises(InputError, match="text 1 of 2 contains half a surrogate pair"):
        minilm.encode(["whole 🙂", "half \ud83d"])
    with pytest.raises(InputError, match="text 0 of 1 contains half a surrogate pair"):
        minilm.encode_standard(["\udc00"])
    with pytest.raises(InputError, match=r"give \[text\]"):
        minilm.encode("one text")


@pytest.mark.parametrize("text", ["\u200b", "...", "🙂🙂", "\x00 b", "[PAD] [CLS]", "\ufeff", "日本語です。"])
def test_odd_texts_have_vectors(minilm: TransformerEncoder, text: str) -> None:
    embeddings = minilm.encode([text])
    np.testing.assert_allclose(np.linalg.norm(embeddings.heads, axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(embeddings.standard, axis=-1), 1, atol=1e-5)


def test_related_texts_are_nearer(minilm: TransformerEncoder) -> None:
    a, b, c = minilm.encode_standard(["A storm closed the bridge.", "Bad weather shut the crossing.", "Pasta recipes."])
    assert a @ b > a @ c + 0.3


def test_bfloat16_moves_cosines_little_and_has_its_own_fingerprint(minilm: TransformerEncoder) -> None:
    half = TransformerEncoder.load(dtype="bfloat16")
    a, b = minilm.encode_standard(TEXTS), half.encode_standard(TEXTS)
    assert np.abs(a @ a.T - b @ b.T).max() < 0.01
    assert b.dtype == np.float32
    assert half.fingerprint != minilm.fingerprint


@pytest.mark.parametrize("max_length", [None, 30])
def test_bfloat16_reads_texts_of_any_length(max_length: int | None) -> None:
    single, half = (TransformerEncoder.load(dtype=dtype, max_length=max_length) for dtype in ("float32", "bfloat16"))
    words = ["A", "storm", "closed", "the", "old", "bridge", "near", "the", "harbour"]
    texts = [" ".join((words * 5)[:n]) for n in range(1, 46)]
    for batch in [texts, *([text] for text in texts[20:32])]:
        assert (single.encode_standard(batch) * half.encode_standard(batch)).sum(1).min() > 0.999


def test_layers_may_be_on_several_devices(minilm: TransformerEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Placed one by one, though here all are the CPU, and with the hooks that move what goes from one to the next."""
    accelerate = pytest.importorskip("accelerate")
    monkeypatch.setattr("mrag_rl.encoders.transformer.free_memory", lambda _: {"cuda:0": 1 << 30, "cuda:1": 1 << 30})
    encoder = TransformerEncoder.load(device="auto", layer=[0, -1])
    layers = {f"encoder.layer.{number}": "cpu" for number in range(6)}
    accelerate.dispatch_model(
        encoder.model, {"embeddings": "cpu", **layers, "pooler": "cpu"}, main_device="cpu", force_hooks=True
    )
    one = TransformerEncoder.load(layer=[0, -1])
    placed, plain = encoder.encode(TEXTS), one.encode(TEXTS)
    np.testing.assert_allclose(placed.standard, plain.standard, atol=1e-6)
    np.testing.assert_allclose(placed.heads, plain.heads, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("1_Pooling/config.json", "[]", "not an object of settings; give a model folder as it was saved"),
        ("config_sentence_transformers.json", '"x"', "not an object of settings"),
        ("config_sentence_transformers.json", '{"similarity_fn_name": ["x"]}', r"similarity_fn_name is \['x'\], not a"),
        ("sentence_bert_config.json", "null", "not an object of settings"),
        ("sentence_bert_config.json", '{"max_seq_length": "x"}', "max_seq_length is 'x', not a whole number; give"),
        ("sentence_bert_config.json", '{"max_seq_length": -1}', "max_seq_length is -1, no number of tokens; give"),
        ("sentence_bert_config.json", '{"do_lower_case": "no"}', "do_lower_case is 'no', not true or false; give"),
        ("tokenizer_config.json", '{"model_max_length": "x"}', "model_max_length is 'x', no number of tokens; give"),
        ("modules.json", '{"a": 1}', "modules.json: not a list; give a model that sentence-transformers saved"),
    ],
)
def test_broken_settings_are_named_with_their_file(tmp_path: Path, file: str, content: str, message: str) -> None:
    folder = minilm_folder(tmp_path / "broken")
    if file == "1_Pooling/config.json":
        (folder / "modules.json").unlink()
    (folder / file).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        TransformerEncoder.load(str(folder))
    assert str(folder / file) in str(caught.value)


def test_the_fingerprint_tells_layers_and_pooling_apart(minilm: TransformerEncoder) -> None:
    same, layer, pooling = (
        TransformerEncoder.load(**kwargs) for kwargs in ({"layer": 5}, {"layer": 2}, {"pooling": "mean"})
    )
    assert minilm.fingerprint == same.fingerprint == TransformerEncoder.load(layer=[-1]).fingerprint
    both = TransformerEncoder.load(layer=[2, 5])
    assert len({both.fingerprint, minilm.fingerprint, layer.fingerprint, pooling.fingerprint}) == 4


def test_a_wrong_hash_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.safetensors: SHA-256 is 53aa5.*expected 0000"):
        TransformerEncoder.load(sha256="0" * 64)
    folder = tmp_path / "tampered"
    shutil.copytree(find_model("all-MiniLM-L6-v2"), folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(InputError, match=r"tampered/model\.safetensors: SHA-256"):
        TransformerEncoder.load(str(folder), sha256=MINILM_SHA256)


def minilm_folder(folder: Path) -> Path:
    shutil.copytree(find_model("all-MiniLM-L6-v2"), folder)
    return folder


def test_the_fingerprint_tells_tokenizers_and_configurations_apart(minilm: TransformerEncoder, tmp_path: Path) -> None:
    same = minilm_folder(tmp_path / "same")
    assert TransformerEncoder.load(str(same)).fingerprint == minilm.fingerprint
    cased = minilm_folder(tmp_path / "cased")
    settings = json.loads((cased / "tokenizer.json").read_text())
    settings["normalizer"]["lowercase"] = False
    (cased / "tokenizer.json").write_text(json.dumps(settings))
    shorter = minilm_folder(tmp_path / "shorter")
    (shorter / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    other = minilm_folder(tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    encoders = [TransformerEncoder.load(str(folder)) for folder in (cased, shorter, other)]
    assert len({minilm.fingerprint, *(encoder.fingerprint for encoder in encoders)}) == 4


def test_the_fingerprints_that_databases_hold_still_hold(minilm: TransformerEncoder) -> None:
    before_settings_counted = json.dumps([MINILM_SHA256, 5, "first", "torch.float32"])
    assert minilm.fingerprint == hashlib.sha256(before_settings_counted.encode()).hexdigest()


def test_weights_that_are_damaged_or_missing_are_refused(tmp_path: Path) -> None:
    half = minilm_folder(tmp_path / "half")
    with (half / "model.safetensors").open("r+b") as file:
        file.truncate(10_000_000)
    with pytest.raises(InputError, match=r"half: cannot be loaded \("):
        TransformerEncoder.load(str(half))
    model = BertModel(BertConfig(hidden_size=24, num_attention_heads=4, num_hidden_layers=2, intermediate_size=32))
    tokenizer = AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2"))
    for name, prefix in (("without_pooler", "pooler."), ("without_layer", "encoder.layer.1.")):
        weights = {key: value for key, value in model.state_dict().items() if not key.startswith(prefix)}
        model.save_pretrained(tmp_path / name, state_dict=weights)
        tokenizer.save_pretrained(tmp_path / name)
    assert TransformerEncoder.load(str(tmp_path / "without_pooler")).heads == 4
    with pytest.raises(InputError, match=r"without_layer: no weights for encoder\.layer\.1\."):
        TransformerEncoder.load(str(tmp_path / "without_layer"))


def test_a_decoder_that_is_not_run_may_be_missing(tmp_path: Path) -> None:
    config = T5Config(vocab_size=30522, d_model=32, d_kv=8, num_heads=4, num_layers=2, d_ff=48)
    model = T5EncoderModel(config).eval()
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2")).save_pretrained(tmp_path)
    encoder = TransformerEncoder.load(str(tmp_path))
    with torch.inference_mode():
        hidden = model(torch.tensor([encoder.tokenizer(TEXTS[0])["input_ids"]])).last_hidden_state[0]
    np.testing.assert_allclose(encoder.encode(TEXTS).standard[0], normalize(hidden.mean(0), dim=-1), atol=1e-5)
    weights = {key: value for key, value in model.state_dict().items() if not key.startswith("encoder.block.1.")}
    model.save_pretrained(tmp_path, state_dict=weights)
    with pytest.raises(InputError, match=r"no weights for encoder\.block\.1\."):
        TransformerEncoder.load(str(tmp_path))


def test_a_model_in_training_is_read_without_dropout(seeded: None) -> None:
    model = BertModel(BertConfig(hidden_size=24, num_attention_heads=4, num_hidden_layers=1, intermediate_size=32))
    tokenizer = AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2"))
    encoder = TransformerEncoder(model.train(), tokenizer, name="small", weights_hash="0", max_length=32)
    np.testing.assert_array_equal(encoder.encode(TEXTS).heads, encoder.encode(TEXTS).heads)


def test_a_models_own_code_is_not_run(tmp_path: Path) -> None:
    folder = minilm_folder(tmp_path / "code")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match=r"code: needs code of its own \(own.OwnModel\), which is not run"):
        TransformerEncoder.load(str(folder))
    config["auto_map"] = {"AutoConfig": "own.OwnConfig"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"code: cannot be loaded \("):
        TransformerEncoder.load(str(folder))
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    shutil.copy(find_model("all-MiniLM-L6-v2") / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(InputError, match=r"no \*\.safetensors weights"):
        TransformerEncoder.load(str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 6}, "encoder layer 6: the model has 6 layers; choose from -6 to 5"),
        ({"layer": -7}, "encoder layer -7"),
        ({"layer": []}, r"encoder layers \[\]: give one or more layers, each once"),
        ({"layer": [5, -1]}, r"encoder layers \[5, -1\]: give one or more"),
        ({"layer": [0, 6]}, "encoder layer 6: the model has 6 layers"),
        ({"max_length": 513}, "max_length is 513; .* has 512 positions, give no more"),
        ({"max_length": 2}, "no room for text in 2 tokens"),
        ({"pooling": "cls"}, "pooling is 'cls'; choose from first, last, mean"),
        ({"batch_tokens": 0}, "batch_tokens is 0; give 1 or more"),
        ({"device": "nowhere"}, "device 'nowhere' cannot be used .*; give cpu"),
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used .*; give cpu"),
        ({"name_or_path": str(Path(__file__).parent)}, "no config.json"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TransformerEncoder.load(**arguments)


def test_a_model_found_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="'nobody/no-such-encoder': no such folder, and the hub could not provide it"):
        TransformerEncoder.load("nobody/no-such-encoder")


def test_embeddings_slice_join_save_and_load(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    standard, heads, norms = (rng.random(shape, np.float32) for shape in ((5, 4), (5, 2, 3), (5, 2)))
    standard, heads = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) for vectors in (standard, heads))
    whole = Embeddings(standard, heads, norms, encoder="a fingerprint")
    assert len(whole) == 5 and whole[1:3].encoder == "a fingerprint"
    np.testing.assert_array_equal(whole[1:3].norms, whole.norms[1:3])
    np.testing.assert_array_equal(Embeddings.concatenate([whole[:2], whole[2:]]).norms, whole.norms)
    np.testing.assert_array_equal(whole[np.array([3, 1])].heads, whole.heads[[3, 1]])
    np.testing.assert_array_equal(Embeddings.concatenate([whole[:2], whole[2:]]).standard, whole.standard)
    one_by_one = Embeddings.concatenate((whole[[row]] for row in range(5)), count=5)
    np.testing.assert_array_equal(one_by_one.heads, whole.heads)
    assert one_by_one.encoder == "a fingerprint"
    with pytest.raises(ValueError, match="the parts have 3 rows, not 5"):
        Embeddings.concatenate(iter([whole[:2], whole[2:3]]), count=5)
    with pytest.raises(InputError, match="vectors of one list are of the encoder another"):
        Embeddings.concatenate(iter([whole[:2], replace(whole[2:], encoder="another")]), count=5)
    whole.save(tmp_path / "e.npz")
    loaded = Embeddings.load(tmp_path / "e.npz")
    np.testing.assert_array_equal(loaded.heads, whole.heads)
    np.testing.assert_array_equal(loaded.norms, whole.norms)
    assert loaded.encoder == "a fingerprint"
    (tmp_path / "broken.npz").write_bytes(b"no npz")
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, whole.heads)
    (tmp_path / "half.npz").write_bytes((tmp_path / "e.npz").read_bytes()[:200])
    for name in ("missing.npz", "broken.npz", "one.npz", "half.npz"):
        with pytest.raises(InputError, match=name):
            Embeddings.load(tmp_path / name)


def test_norms_left_out_are_those_of_the_heads(tmp_path: Path) -> None:
    heads = np.array([[[3.0, 4.0], [0.0, 1.0]]], np.float32)
    np.testing.assert_array_equal(Embeddings(np.ones((1, 2), np.float32), heads).norms, [[5, 1]])
    np.savez(tmp_path / "old.npz", standard=np.ones((1, 2), np.float32), heads=heads / [[[5], [1]]])
    with pytest.raises(InputError, match=r"old\.npz: .* without the heads' norms; remove it"):
        Embeddings.load(tmp_path / "old.npz")


def test_several_layers_are_those_of_one_at_a_time_side_by_side(minilm: TransformerEncoder) -> None:
    first, last = TransformerEncoder.load(layer=0), minilm
    both = TransformerEncoder.load(layer=[0, -1])
    assert (both.layers, both.heads, both.head_dimension) == ([0, 5], 24, 32)
    a, b, ab = (encoder.encode(TEXTS) for encoder in (first, last, both))
    np.testing.assert_allclose(ab.heads, np.concatenate([a.heads, b.heads], axis=1), atol=1e-5)
    np.testing.assert_allclose(ab.norms, np.concatenate([a.norms, b.norms], axis=1), rtol=1e-4)
    np.testing.assert_allclose(ab.standard, b.standard, atol=1e-5)


def test_a_prefix_comes_before_every_text_and_an_empty_text_stays_empty(minilm: TransformerEncoder) -> None:
    a, b = minilm.encode(TEXTS, prefix="query: "), minilm.encode(["query: " + text for text in TEXTS])
    np.testing.assert_array_equal(a.heads, b.heads)
    assert np.abs(a.heads - minilm.encode(TEXTS).heads).max() > 0.01
    with pytest.raises(InputError, match="text 0 of 1 is empty"):
        minilm.encode([" "], prefix="query: ")


def test_a_long_text_is_the_mean_of_its_windows(minilm: TransformerEncoder) -> None:
    long = " ".join(TEXTS[i % 5] for i in range(45))
    tokens = minilm.tokenizer(long, add_special_tokens=False, verbose=False)["input_ids"]
    assert len(tokens) > 2 * 254
    first, last = minilm.tokenizer.cls_token_id, minilm.tokenizer.sep_token_id
    total, heads, standard, covered = 0, torch.zeros(12, 32), torch.zeros(384), 0
    inputs: list[torch.Tensor] = []
    layers: Any = minilm.model.encoder
    projection = layers.layer[-1].attention.output.dense
    handle = projection.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    with torch.inference_mode():
        for start in range(0, len(tokens), 127):  # 256 less two special tokens, and half of that
            if covered == len(tokens):
                break
            window = [first, *tokens[start : start + 254], last]
            covered = min(start + 254, len(tokens))
            hidden = minilm.model(torch.tensor([window])).last_hidden_state
            heads += inputs.pop()[0, 0].view(12, 32) * len(window)
            standard += hidden[0].mean(0) * len(window)
            total += len(window)
    handle.remove()
    embeddings = minilm.encode([TEXTS[1], long])
    np.testing.assert_allclose(embeddings.norms[1], (heads / total).norm(dim=-1), rtol=1e-4)
    np.testing.assert_allclose(embeddings.heads[1], normalize(heads, dim=-1), atol=1e-5)
    np.testing.assert_allclose(embeddings.standard[1], normalize(standard, dim=0), atol=1e-5)
    np.testing.assert_allclose(minilm.encode_standard([long])[0], embeddings.standard[1], atol=1e-5)


def test_a_prefix_is_read_in_every_window(minilm: TransformerEncoder) -> None:
    long, prefix = " ".join(TEXTS[i % 5] for i in range(45)), "find this: "
    numbers = [minilm.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in (prefix, long)]
    first, last = minilm.tokenizer.cls_token_id, minilm.tokenizer.sep_token_id
    start, room, tokens = [first, *numbers[0]], 254 - len(numbers[0]), numbers[1]
    windows = [[*start, *tokens[i : i + room], last] for i in range(0, len(tokens) - room // 2, room - room // 2)]
    assert len(windows) > 2 and windows[-1][-2] == tokens[-1] and max(map(len, windows)) == 256
    with torch.inference_mode():
        means = [minilm.model(torch.tensor([ids])).last_hidden_state[0].mean(0) * len(ids) for ids in windows]
    embeddings = minilm.encode([TEXTS[1], long], prefix=prefix)
    np.testing.assert_allclose(embeddings.standard[1], normalize(sum(means, torch.zeros(384)), dim=0), atol=1e-5)
    np.testing.assert_allclose(embeddings.standard[0], minilm.encode([prefix + TEXTS[1]]).standard[0], atol=1e-5)


def test_a_prefix_that_fills_the_window_is_an_error(minilm: TransformerEncoder) -> None:
    with pytest.raises(InputError, match=r"the prefix 'find find .* fills all 256 tokens"):
        minilm.encode(TEXTS, prefix="find " * 254)
    assert len(minilm.encode(TEXTS, prefix="find " * 253)) == len(TEXTS)


def test_the_length_of_a_window_can_be_chosen(minilm: TransformerEncoder) -> None:
    long = " ".join(TEXTS * 4)
    whole, halves = TransformerEncoder.load(max_length=512), TransformerEncoder.load(max_length=128)
    assert (minilm.max_length, whole.max_length) == (256, 512)
    assert len({encoder.fingerprint for encoder in (minilm, whole, halves)}) == 3
    np.testing.assert_allclose(whole.encode(TEXTS).heads, halves.encode(TEXTS).heads, atol=1e-5)
    assert np.abs(whole.encode([long]).heads - halves.encode([long]).heads).max() > 0.01


def test_a_change_at_the_end_of_100_000_characters_is_noticed(seeded: None) -> None:
    model = BertModel(BertConfig(hidden_size=24, num_attention_heads=4, num_hidden_layers=1, intermediate_size=32))
    encoder = small_encoder(model, pooling="mean")
    words = "ferry bridge council " * 4762
    texts = [words[:100_000], words[:99_990] + " goal goal"]
    assert [len(text) for text in texts] == [100_000, 100_000]
    embeddings = encoder.encode(texts)
    assert np.isfinite(embeddings.heads).all()
    np.testing.assert_allclose(np.linalg.norm(embeddings.heads, axis=-1), 1, atol=1e-5)
    assert np.abs(embeddings.heads[0] - embeddings.heads[1]).max() > 0


@pytest.mark.parametrize("max_length", [2, 3, 4, 32])
def test_windows_hold_every_token_and_half_of_the_one_before(max_length: int, seeded: None) -> None:
    model = BertModel(BertConfig(hidden_size=24, num_attention_heads=4, num_hidden_layers=1, intermediate_size=32))
    if max_length == 2:
        with pytest.raises(InputError, match="no room for text in 2 tokens"):
            small_encoder(model, max_length=2)
        return
    encoder = small_encoder(model, max_length=max_length)
    rows: list[list[int]] = []
    handle = model.register_forward_pre_hook(
        lambda _, args, kw: rows.extend(kw["input_ids"].tolist()), with_kwargs=True
    )
    encoder.encode([TEXTS[0]])
    handle.remove()
    room, tokens = max_length - 2, encoder.tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"]
    windows = [[token for token in row if token][1:-1] for row in rows]
    if room >= len(tokens):
        assert windows == [tokens]
        return
    step = room - room // 2
    assert sorted(windows) == sorted(tokens[i : i + room] for i in range(0, len(tokens) - room // 2, step))
    assert {token for window in windows for token in window} == set(tokens)


def test_positions_of_roberta_are_counted_after_its_padding(tmp_path: Path) -> None:
    config = RobertaConfig(
        vocab_size=30522,
        hidden_size=24,
        num_attention_heads=4,
        num_hidden_layers=1,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    RobertaModel(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2"), model_max_length=10**9).save_pretrained(tmp_path)
    encoder = TransformerEncoder.load(str(tmp_path))
    assert encoder.max_length == 38
    assert np.isfinite(encoder.encode([" ".join(TEXTS)]).heads).all()


# -- heads against attention by hand -------------------------------------------------------------------------------


def small_encoder(model: PreTrainedModel, **arguments: Any) -> TransformerEncoder:
    tokenizer = AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2"))
    defaults: dict[str, Any] = {"name": "small", "weights_hash": "0", "max_length": 32, "batch_tokens": 64}
    return TransformerEncoder(model.eval(), tokenizer, **{**defaults, **arguments})


def token_rows(encoder: TransformerEncoder, texts: list[str]) -> Iterator[torch.Tensor]:
    for text in texts:
        yield torch.tensor([encoder.tokenizer(text, truncation=True, max_length=32)["input_ids"]])


@pytest.fixture
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@torch.inference_mode()
@pytest.mark.parametrize("layer", [-1, 0])
def test_bert_heads_are_softmax_qk_v_at_the_first_token(layer: int, seeded: None) -> None:
    config = BertConfig(hidden_size=24, num_attention_heads=4, num_hidden_layers=3, intermediate_size=32)
    model = BertModel(config)
    encoder = small_encoder(model, layer=layer)
    assert (encoder.pooling, encoder.heads, encoder.head_dimension) == ("first", 4, 6)
    embeddings = encoder.encode(TEXTS)
    layers: Any = model.encoder.layer
    attention = layers[layer].attention.self
    for i, ids in enumerate(token_rows(encoder, TEXTS)):
        states = model(ids, output_hidden_states=True).hidden_states
        x = states[layer % 3][0]  # what goes into the layer
        q, k, v = (p(x).view(len(x), 4, 6).transpose(0, 1) for p in (attention.query, attention.key, attention.value))
        by_hand = (q @ k.transpose(1, 2) / 6**0.5).softmax(-1) @ v  # (H, L, d_h)
        np.testing.assert_allclose(embeddings.heads[i], normalize(by_hand[:, 0], dim=-1), atol=1e-5)
        np.testing.assert_allclose(embeddings.standard[i], normalize(states[-1][0].mean(0), dim=-1), atol=1e-5)


@torch.inference_mode()
def test_llama_heads_with_grouped_queries_are_softmax_qk_v_at_the_last_token(seeded: None) -> None:
    config = LlamaConfig(
        vocab_size=30522,
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=10,
        num_hidden_layers=2,
        intermediate_size=48,
    )
    model = LlamaModel(config)
    encoder = small_encoder(model)
    assert (encoder.pooling, encoder.heads, encoder.head_dimension) == ("last", 4, 10)
    embeddings = encoder.encode(TEXTS)
    layer: Any = model.layers[-1]
    for i, ids in enumerate(token_rows(encoder, TEXTS)):
        states = model(ids, output_hidden_states=True).hidden_states
        x = layer.input_layernorm(states[1])  # (1, L, d)
        length = x.shape[1]
        attention = layer.self_attn
        q, k, v = (
            p(x).view(1, length, -1, 10).transpose(1, 2) for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        cos, sin = model.rotary_emb(x, torch.arange(length)[None])
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
        last = (q[0, :, -1:] @ k[0].transpose(1, 2) / 10**0.5).softmax(-1) @ v[0]  # the last token sees all
        np.testing.assert_allclose(embeddings.heads[i], normalize(last[:, 0], dim=-1), atol=1e-5)


@torch.inference_mode()
def test_heads_can_be_averaged_over_tokens_without_the_padding(seeded: None) -> None:
    model = BertModel(BertConfig(hidden_size=24, num_attention_heads=4, num_hidden_layers=1, intermediate_size=32))
    encoder = small_encoder(model, pooling="mean")
    inputs: list[torch.Tensor] = []
    first: Any = model.encoder.layer[0]
    handle = first.attention.output.dense.register_forward_pre_hook(lambda _, a: inputs.append(a[0]))
    for ids in token_rows(encoder, TEXTS):
        model(ids)
    handle.remove()
    by_hand = np.stack([normalize(x[0].mean(0).view(4, 6), dim=-1).numpy() for x in inputs])
    np.testing.assert_allclose(encoder.encode(TEXTS).heads, by_hand, atol=1e-5)


def test_many_embeddings_are_kept_in_a_file_that_ends_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.encoders.store.BLOCK", 3)
    texts = [f"Text number {number}." for number in range(8)]
    store = EmbeddingStore(tiny_encoder(), tmp_path / "kept")
    for _ in ("encoded", "read again"):
        found = store.encode(texts)
        for name in ("standard", "heads", "norms"):
            array = base = getattr(found, name)
            while getattr(base, "base", None) is not None:
                base = base.base
            assert isinstance(base, mmap.mmap)
            wanted = np.concatenate([getattr(tiny_encoder().encode(texts[at : at + 3]), name) for at in (0, 3, 6)])
            np.testing.assert_array_equal(array, wanted)
        assert len([*(tmp_path / "kept").iterdir()]) == 3

    unmapped = tempfile.TemporaryFile

    def without_a_place(*arguments: Any, **named: Any) -> Any:
        raise OSError(errno.EROFS, "read-only file system")

    def on_a_full_disk(*arguments: Any, **named: Any) -> Any:
        return FullDisk(unmapped(*arguments, **named))

    monkeypatch.setattr(tempfile, "TemporaryFile", without_a_place)
    np.testing.assert_array_equal(store.encode(texts).heads, found.heads)
    monkeypatch.setattr(tempfile, "TemporaryFile", on_a_full_disk)
    with pytest.raises(OSError, match=r"no space left on device: .*kept"):
        store.encode(texts)
    assert len([*(tmp_path / "kept").iterdir()]) == 3


class FullDisk:
    """A file that cannot be written."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, _: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")
