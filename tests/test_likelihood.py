"""A completion's log-probability is the model's own, whatever the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, Lfm2Config, Lfm2ForCausalLM, PreTrainedModel

from mrag_rl.errors import InputError
from mrag_rl.generation import Prompt
from mrag_rl.generation.likelihood import Completion, batches
from mrag_rl.generation.prompts import shorten
from mrag_rl.generation.transformers_llm import TransformersLLM
from tests.test_generation import ARCHITECTURES, WORDS, load_in_float64, small_model, small_tokenizer, some_prompts

CHAT = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]\n"


MIXED = ["narrow window", "lfm2"]
"""Models in which full attention takes turns with Gemma 3's sliding window, or with a short convolution."""


def mixed_model(architecture: str, vocabulary: int) -> PreTrainedModel:
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "initializer_range": 0.2,
        "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 512,
    }  # fmt: skip
    if architecture == "narrow window":
        layers = ["sliding_attention", "full_attention"] * 2
        return Gemma3ForCausalLM(Gemma3TextConfig(**shape, head_dim=8, sliding_window=8, layer_types=layers))
    return Lfm2ForCausalLM(Lfm2Config(**shape, layer_types=["conv", "full_attention"] * 2))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TransformersLLM]:
    """Small models with float64 arithmetic: of each architecture, and two that chat."""
    root = tmp_path_factory.mktemp("llms")
    made = {}
    for name in [*ARCHITECTURES, *MIXED, "chat", "chat with a space"]:
        tokenizer = small_tokenizer()
        if name.startswith("chat"):
            tokenizer.chat_template = CHAT + " " * name.endswith("space")
        make, architecture = (mixed_model, name) if name in MIXED else (small_model, name.split(" ")[0])
        make(architecture.replace("chat", "llama"), len(tokenizer)).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
        made[name] = load_in_float64(root / name)
    return made


def some_completions(count: int, seed: int = 0) -> list[list[str]]:
    """One to four texts, some of them empty, for each of `count` prompts."""
    rng = np.random.default_rng(seed)
    return [
        [" ".join(rng.choice(WORDS, rng.integers(0, 12))) for _ in range(int(rng.integers(1, 5)))] for _ in range(count)
    ]


def by_hand(llm: TransformersLLM, prompt: Prompt, text: str) -> float:
    """One prompt, one text, no padding, no cache: the mean of the log-softmax of its tokens and of any end."""
    rendered, chat = llm.render(prompt), bool(llm.tokenizer.chat_template)
    prompt_ids, ids = (
        llm.tokenizer(whole, add_special_tokens=not chat)["input_ids"]
        for whole in (rendered, rendered + (text if chat or not text else f" {text}"))
    )
    start = len(prompt_ids)
    if ids[:start] != prompt_ids:  # the last token of the prompt has become part of the completion's first one
        start -= 1
    assert ids[:start] == prompt_ids[:start]
    with torch.inference_mode():
        steps = llm.model(torch.tensor([ids])).logits[0, start - 1 :].log_softmax(dim=-1)
    written = [float(steps[i, token]) for i, token in enumerate(ids[start:])]
    ended = float(steps[-1].exp()[llm.decoder.stop_tokens].sum().log())
    return float(np.mean([*written, ended]))


@pytest.mark.parametrize("name", [*ARCHITECTURES, *MIXED, "chat", "chat with a space"])
def test_scores_are_the_plain_computations(models: dict[str, TransformersLLM], name: str) -> None:
    llm, prompts, completions = models[name], some_prompts(6), some_completions(6)
    completions[2] = ["", "the council", ""]
    scores = llm.log_probabilities(prompts, completions)
    assert [len(row) for row in scores] == [len(row) for row in completions]
    for prompt, texts, row in zip(prompts, completions, scores, strict=True):
        np.testing.assert_allclose(row, [by_hand(llm, prompt, text) for text in texts], atol=1e-5)
    values = [score for row in scores for score in row]
    assert max(values) < 0 and len({round(value, 3) for value in values}) > 8
    # Where the cache keeps everything, a prompt is read once for all its completions; else every row as a whole.
    assert llm.decoder.continues_by_several() == (name != "lfm2")


def test_without_shared_prompts_the_scores_are_the_same(
    models: dict[str, TransformersLLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, prompts, completions = models["gpt2"], some_prompts(6), some_completions(6)
    shared = llm.log_probabilities(prompts, completions)
    monkeypatch.setattr(type(llm.decoder), "continues_by_several", lambda self: False)
    for row, other in zip(shared, llm.log_probabilities(prompts, completions), strict=True):
        np.testing.assert_allclose(row, other, atol=1e-5)


@pytest.mark.parametrize("name", [*ARCHITECTURES, *MIXED])
def test_a_score_does_not_depend_on_the_batch(models: dict[str, TransformersLLM], name: str) -> None:
    llm, prompts, completions = models[name], some_prompts(9), some_completions(9)
    together = llm.log_probabilities(prompts, completions)

    def check(scores: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> None:
        for row, other in zip(scores, expected, strict=True):
            np.testing.assert_allclose(row, other, atol=1e-5)

    pairs = zip(prompts, completions, strict=True)
    check([[llm.log_probabilities([prompt], [[t]])[0][0] for t in texts] for prompt, texts in pairs], together)
    check(llm.log_probabilities(prompts[::-1], completions[::-1]), together[::-1])
    before, llm.batch_tokens = llm.usage.batches, 150
    try:
        check(llm.log_probabilities(prompts, completions), together)
    finally:
        llm.batch_tokens = 16384
    assert llm.usage.batches > before + 3


def test_equal_texts_are_scored_once_and_prompts_counted(models: dict[str, TransformersLLM]) -> None:
    llm, (prompt,) = models["llama"], some_prompts(1)
    rows = []
    forward = llm.model.forward

    def counting(input_ids: torch.Tensor, **kwargs: object) -> object:
        rows.append(len(input_ids))
        return forward(input_ids=input_ids, **kwargs)

    llm.model.forward = counting
    before = llm.usage.prompts, llm.usage.batches, llm.usage.generated_tokens
    scores = llm.log_probabilities([prompt, prompt], [["a b", "c", "a b"], [" c "]])
    llm.model.forward = forward
    assert rows == [1, 2]  # the prompt, then both texts
    assert scores[0][0] == scores[0][2] != scores[0][1] == scores[1][0]
    assert (llm.usage.prompts, llm.usage.batches) == (before[0] + 2, before[1] + 1)
    assert llm.usage.generated_tokens == before[2]
    assert llm.log_probabilities([], []) == [] and llm.log_probabilities([prompt], [[]]) == [[]]
    with pytest.raises(ValueError):
        llm.log_probabilities([prompt], [])


@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_a_long_prompt_is_shortened_as_for_generation(models: dict[str, TransformersLLM], name: str) -> None:
    llm = models[name]
    long = Prompt("summarization", "harbour council " * 600, (("minister " * 600, "the trade desk"),))
    room, context = 20, 512

    def shortened(room: int) -> Prompt:
        return shorten(long, lambda prompt: len(llm.tokenizer(llm.render(prompt))["input_ids"]), context - room)

    texts = ["the trade desk", "the minister"]
    # The short prompt's completion is so long that, after the long prompt, it would leave the model's context.
    brief, many = some_prompts(1)[0], " ".join(WORDS[:40])
    scores = llm.log_probabilities([long, brief], [texts, [many]], max_new_tokens=room)
    np.testing.assert_allclose(scores[0], [by_hand(llm, shortened(room), text) for text in texts], atol=1e-5)
    np.testing.assert_allclose(scores[1], [by_hand(llm, brief, many)], atol=1e-5)
    needed = len(llm.tokenizer(f" {many}")["input_ids"])
    assert needed > room
    (score,) = llm.log_probabilities([long], [[many]], max_new_tokens=room)[0]
    np.testing.assert_allclose(score, by_hand(llm, shortened(needed), many), atol=1e-5)
    with pytest.raises(InputError, match="context of 512"):
        llm.log_probabilities([brief], [["harbour " * 600]])


def test_running_out_of_memory_halves_the_batch(models: dict[str, TransformersLLM]) -> None:
    llm, prompts, completions = models["llama"], some_prompts(8), some_completions(8)
    expected = llm.log_probabilities(prompts, completions)
    forward, limit = llm.model.forward, 3

    def small_memory(input_ids: torch.Tensor, **kwargs: object) -> object:
        if len(input_ids) > limit:
            raise torch.OutOfMemoryError("not enough memory")
        return forward(input_ids=input_ids, **kwargs)

    llm.model.forward = small_memory
    try:
        for row, other in zip(llm.log_probabilities(prompts, completions), expected, strict=True):
            np.testing.assert_allclose(row, other, atol=1e-5)
        limit = 0
        with pytest.raises(InputError, match="does not fit into the memory"):
            llm.log_probabilities(prompts, completions)
    finally:
        llm.model.forward = forward


def test_what_a_model_writes_greedily_is_likelier_than_what_it_does_not(models: dict[str, TransformersLLM]) -> None:
    llm, prompts = models["llama"], some_prompts(12)
    greedy = [texts[0] for texts in llm.generate(prompts, max_new_tokens=12)]
    others = [text for row in some_completions(12, seed=1) for text in row[:1]]
    scores = np.array(llm.log_probabilities(prompts, list(zip(greedy, others, strict=True))))
    assert (scores[:, 0] > scores[:, 1]).mean() > 0.8


def test_scores_come_in_parts_each_prompt_when_its_last_completion_is_scored(
    models: dict[str, TransformersLLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = models["llama"]
    prompts, completions = [*some_prompts(9), *some_prompts(2)], [*some_completions(10), []]
    whole = llm.log_probabilities(prompts, completions)
    monkeypatch.setattr(llm, "batch_tokens", 1)  # one completion in a batch
    before, batches_before = llm.usage.prompts, llm.usage.batches
    seen: dict[int, list[float]] = {}
    for part in llm.log_probabilities_in_parts(prompts, completions):
        assert part and not part.keys() & seen.keys()
        seen |= part
        assert llm.usage.prompts == before + len(seen)
    distinct = {(i % 9, text) for i, row in enumerate(completions) for text in row}
    assert llm.usage.batches - batches_before == len(distinct)
    assert list(seen) != sorted(seen) and next(iter(seen)) == 10
    for row, expected in enumerate(whole):
        np.testing.assert_allclose(seen[row], expected, atol=1e-12)


@pytest.mark.parametrize("batch_tokens", [20, 60, 200])
def test_prompts_that_are_left_make_the_same_batches_in_a_call_of_their_own(batch_tokens: int) -> None:
    """So a call that was cut off, whose complete prompts a cache has, goes on with the very same batches."""
    rng = np.random.default_rng(3)
    prompts = [tuple(rng.integers(0, 9, rng.integers(1, 12)).tolist()) for _ in range(40)]
    items = [
        Completion(prompt, tuple(rng.integers(0, 9, rng.integers(0, 6)).tolist()))
        for prompt in prompts
        for _ in range(rng.integers(1, 6))
    ]
    made = batches(items, batch_tokens, vocabulary=100)
    assert {item for batch in made for item in batch} == {*items} and len(made) > 2
    assert all(len({item.prompt for item in batch}) == 1 or size(batch) <= batch_tokens for batch in made)
    for done in range(1, len(made)):
        complete = {item.prompt for batch in made[:done] for item in batch} - {
            item.prompt for batch in made[done:] for item in batch
        }
        left = [item for item in items if item.prompt not in complete]
        again = batches(left, batch_tokens, vocabulary=100)
        assert again == made[len(made) - len(again) :]


def size(batch: list[Completion]) -> int:
    return len(batch) * (len(batch[0].prompt) + max(len(item.tokens) for item in batch))
