"""The cross-encoder: batched scores are those of single pairs, rankings follow them, broken models are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from mrag_rl.errors import InputError
from mrag_rl.retrieval.rerank import CrossEncoder, Reranker
from mrag_rl.retrieval.voting import Ranking

TEXT = "who won the cup race in may a runner from hill town lost her shoe and still came first"
WORDS = TEXT.split(" ")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SMALL: dict[str, Any] = {
    "vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "max_position_embeddings": 40, "initializer_range": 0.5, "pad_token_id": 1,
}  # fmt: skip


def write_model(folder: Path, make: Callable[..., PreTrainedModel], config: Any) -> Path:
    """A model with random weights and a tokenizer of a few words, as a folder."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*SPECIAL, *WORDS])}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    second = config.type_vocab_size - 1
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair=f"<s> $A </s> $B:{second} </s>:{second}",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        make(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    return write_model(folder, BertForSequenceClassification, BertConfig(**SMALL | {"num_labels": 1}))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = RobertaConfig(**SMALL | {"type_vocab_size": 1, "num_labels": 1})
    return write_model(tmp_path_factory.mktemp("roberta"), RobertaForSequenceClassification, config)


def random_pairs(count: int, longest: int = 12, seed: int = 0) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)

    def text() -> str:
        return " ".join(rng.choice(WORDS, rng.integers(1, longest)))

    return [(text(), text()) for _ in range(count)]


def plain_logits(folder: Path, make: Any, pair: tuple[str, str]) -> list[float]:
    """The model's outputs for one pair, by the library alone."""
    ids = PreTrainedTokenizerFast.from_pretrained(folder)(*pair, return_tensors="pt")
    with torch.inference_mode():
        return make.from_pretrained(folder).eval()(**ids).logits[0].tolist()


@pytest.mark.parametrize(("name", "make"), [("bert", BertForSequenceClassification),
                                            ("roberta", RobertaForSequenceClassification)])  # fmt: skip
def test_batched_scores_are_those_of_single_pairs(request: pytest.FixtureRequest, name: str, make: Any) -> None:
    folder = request.getfixturevalue(name)
    pairs = random_pairs(60)
    scores = CrossEncoder.load(str(folder), batch_tokens=100).scores([*pairs, *pairs[:3]])
    assert scores.shape == (63,) and scores.dtype == np.float32
    np.testing.assert_array_equal(scores[60:], scores[:3])
    expected = [plain_logits(folder, make, pair)[0] for pair in pairs[:20]]
    np.testing.assert_allclose(scores[:20], expected, atol=1e-5)
    assert np.std(scores) > 0.05
    # Which text is the query makes a difference.
    assert not np.allclose(CrossEncoder.load(str(folder)).scores([(b, a) for a, b in pairs]), scores[:60], atol=1e-3)


def test_batches_keep_to_their_tokens_and_a_repeated_pair_is_read_once(bert: Path) -> None:
    model = CrossEncoder.load(str(bert), batch_tokens=120)
    shapes: list[tuple[int, int]] = []
    hook = model.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    model.scores(random_pairs(50) * 3)
    hook.remove()
    assert sum(rows for rows, _ in shapes) == 50 and len(shapes) < 25
    assert all(rows * width <= 120 or rows == 1 for rows, width in shapes)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_pairs_longer_than_the_model_are_cut_off(request: pytest.FixtureRequest, name: str) -> None:
    model = CrossEncoder.load(str(request.getfixturevalue(name)))
    assert model.max_length == {"bert": 40, "roberta": 38}[name]
    words = " ".join(np.random.default_rng(1).choice(WORDS, 200))
    short, long, longer = model.scores([("who won", "the cup"), ("who won", words), ("who won", words + " first")])
    assert long == longer != short
    # A long query leaves the passage its room.
    assert len(set(model.scores([(words, "the cup"), (words, "the race")]))) == 2


def test_rankings_follow_the_scores(bert: Path) -> None:
    model = CrossEncoder.load(str(bert))
    texts = [text for _, text in random_pairs(20, seed=5)]
    queries = ["who won the cup", "who lost her shoe", "still first"]
    rng = np.random.default_rng(2)
    indices = np.stack([rng.permutation(20)[:12] for _ in queries])
    indices[1, 4:] = -1
    indices[2] = -1
    result = model.rerank(queries, texts, Ranking(indices, np.zeros(indices.shape)), 6)
    assert result.indices.shape == result.scores.shape == (3, 6)
    for row, query in enumerate(queries):
        ranked = [int(i) for i in indices[row] if i >= 0]
        scores = dict(zip(ranked, model.scores([(query, texts[i]) for i in ranked]).tolist(), strict=True))
        best = sorted(ranked, key=lambda i: -scores[i])[:6]
        assert result.indices[row].tolist() == best + [-1] * (6 - len(best))
        assert result.scores[row, : len(best)] == pytest.approx([scores[i] for i in best], abs=1e-5)
        assert np.isneginf(result.scores[row, len(best) :]).all()
    assert (result.indices[0] != indices[0, :6]).any()


def test_equal_scores_keep_their_order_and_k_may_exceed_the_ranking(bert: Path) -> None:
    check_equal_scores_and_refusals(CrossEncoder.load(str(bert)))


def check_equal_scores_and_refusals(model: Reranker) -> None:
    ranking = Ranking(np.array([[2, 0, 1]]), np.zeros((1, 3)))
    assert model.rerank(["who won"], ["the cup"] * 3, ranking, 10).indices.tolist() == [[2, 0, 1]]
    assert model.scores([]).shape == (0,)
    with pytest.raises(InputError, match="k is 0; give 1 or more"):
        model.rerank(["who won"], ["the cup"] * 3, ranking, 0)
    with pytest.raises(InputError, match="2 queries for 1 rankings"):
        model.rerank(["who won", "who lost"], ["the cup"] * 3, ranking, 3)


def test_of_two_outputs_the_difference_counts(tmp_path: Path) -> None:
    folder = write_model(tmp_path, BertForSequenceClassification, BertConfig(**SMALL | {"num_labels": 2}))
    pair = ("who won", "a runner from hill town")
    no, yes = plain_logits(folder, BertForSequenceClassification, pair)
    assert CrossEncoder.load(str(folder)).scores([pair])[0] == pytest.approx(yes - no, abs=1e-5)


def test_half_the_bytes_give_nearly_the_same_scores(bert: Path) -> None:
    model = CrossEncoder.load(str(bert), dtype="bfloat16")
    assert model.model.dtype == torch.bfloat16
    pairs = random_pairs(30)
    scores = model.scores(pairs)
    assert scores.dtype == np.float32
    assert np.corrcoef(scores, CrossEncoder.load(str(bert)).scores(pairs))[0, 1] > 0.98


def test_progress_is_shown_where_asked_for(bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = CrossEncoder.load(str(bert))
    model.scores(random_pairs(3))
    assert capsys.readouterr().err == ""
    model.scores(random_pairs(3), progress=True)
    assert "rerank" in capsys.readouterr().err


def test_models_that_cannot_rerank_are_named_in_one_line(tmp_path: Path, bert: Path) -> None:
    encoder = write_model(tmp_path / "encoder", BertModel, BertConfig(**SMALL))
    classes = write_model(tmp_path / "classes", BertForSequenceClassification, BertConfig(**SMALL | {"num_labels": 3}))
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text((bert / "config.json").read_text())
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    damaged = write_model(tmp_path / "damaged", BertForSequenceClassification, BertConfig(**SMALL | {"num_labels": 1}))
    (damaged / "model.safetensors").write_bytes(b"no weights")
    (tmp_path / "empty").mkdir()
    for name, says in (
        (encoder, r"reranker .*encoder: no weights for classifier\.bias; give a model trained to score pairs"),
        (classes, "a classifier with 3 outputs"),
        (pickled, r"reranker .*pickled: no \*\.safetensors weights"),
        (damaged, r"reranker .*damaged: cannot be loaded"),
        (tmp_path / "empty", r"reranker .*empty: no config\.json"),
        (tmp_path / "nowhere", r"reranker .*nowhere.*: no such folder"),
    ):
        with pytest.raises(InputError, match=says) as caught:
            CrossEncoder.load(str(name))
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="batch_tokens is 0"):
        CrossEncoder.load(str(bert), batch_tokens=0)
