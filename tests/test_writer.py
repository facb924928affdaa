"""The writer answers with exactly the demonstrations of each text, and refuses lists that do not match."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrag_rl.generation import Prompt, Writer
from mrag_rl.generation.transformers_llm import TransformersLLM
from tests.tiny import Listening, tiny_llm, tiny_world


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> TransformersLLM:
    return tiny_llm(Path(tmp_path_factory.mktemp("writer")))


def test_answers_are_greedy_texts_with_each_texts_own_demonstration(llm: TransformersLLM) -> None:
    texts = [pair.source for pair in tiny_world().splits.dev[:3]]
    memory = tiny_world().splits.database[0]
    demonstrations = [[(memory.source, memory.target)], [], [("another source", "another target")]]
    listening = Listening(llm)
    answers = Writer(listening, "summarization", max_new_tokens=9).answer(texts, demonstrations)
    prompts = [Prompt("summarization", text, tuple(shown)) for text, shown in zip(texts, demonstrations, strict=True)]
    assert listening.prompts == prompts
    assert answers == [samples[0] for samples in llm.generate(prompts, max_new_tokens=9)] and len(set(answers)) > 1
    assert Writer(llm, "summarization").answer([], []) == []


def test_the_nearest_of_several_demonstrations_stands_beside_the_text(llm: TransformersLLM) -> None:
    near, far, farther = ("near", "n"), ("far", "f"), ("farther", "g")
    listening = Listening(llm)
    writer = Writer(listening, "dialogue", max_new_tokens=4, demonstrations=3)
    writer.samples(["a", "b", "c"], [[near, far, farther], [near], []], 2, temperature=1.0, seeds=0)
    assert [prompt.demonstrations for prompt in listening.prompts] == [(farther, far, near), (near,), ()]
    assert llm.render(listening.prompts[0]).index("near") > llm.render(listening.prompts[0]).index("far")


def test_demonstrations_that_outgrow_the_context_are_dropped_from_the_farthest_on(llm: TransformersLLM) -> None:
    near, far, farther, farthest = ((f"{name} " * 150, name) for name in ("near", "far", "farther", "farthest"))
    brief, long = ("brief", "b"), ("long " * 600, "l")
    shown = [[near, far, farther], [near, far, farther, farthest], [long, near, far], [brief, near, far, long], [long]]
    listening = Listening(llm)
    answers = Writer(listening, "summarization", max_new_tokens=9).answer(["text"] * 5, shown)
    # 512 tokens hold three texts of 150 words. The nearest stays even if it does not fit: the model shortens it.
    kept = [(farther, far, near), (farther, far, near), (long,), (far, near, brief), (long,)]
    assert [prompt.demonstrations for prompt in listening.prompts] == kept and len(answers) == 5
    assert llm.fits(listening.prompts, 9) == [True, True, False, True, False]
    tight = Listening(llm)
    Writer(tight, "summarization", max_new_tokens=300).answer(["text"], shown[:1])
    assert tight.prompts[0].demonstrations == (near,)  # room for new tokens counts, too


def test_samples_have_seeds_and_demonstrations_of_their_own(llm: TransformersLLM) -> None:
    first, second, *shown = [(pair.source, pair.target) for pair in tiny_world().splits.database[:4]]
    sources, listening = [first[0], second[0]], Listening(llm)
    writer = Writer(listening, "dialogue", max_new_tokens=9)
    pools = writer.samples(sources, [(), shown], 4, temperature=1.2, seeds=[5, 6])
    assert listening.prompts == [
        Prompt("dialogue", sources[0]), Prompt("dialogue", sources[1], tuple(reversed(shown)))
    ]  # fmt: skip
    assert pools == llm.generate(listening.prompts, samples=4, temperature=1.2, seeds=[5, 6], max_new_tokens=9)
    assert [len(pool) for pool in pools] == [4, 4] and len({text for pool in pools for text in pool}) > 4
    other_seed = writer.samples(sources, [(), shown], 4, temperature=1.2, seeds=[5, 7])
    assert other_seed[0] == pools[0] and other_seed[1] != pools[1]


def test_log_probabilities_are_those_in_the_same_prompts(llm: TransformersLLM) -> None:
    first, second, shown = [(pair.source, pair.target) for pair in tiny_world().splits.database[:3]]
    sources, listening = [first[0], second[0]], Listening(llm)
    pools = [["a word", "another word here"], [""]]
    scores = Writer(listening, "dialogue", max_new_tokens=9).log_probabilities(sources, [(), [shown]], pools)
    assert listening.prompts == [Prompt("dialogue", sources[0]), Prompt("dialogue", sources[1], (shown,))]
    assert scores == llm.log_probabilities(listening.prompts, pools, max_new_tokens=9)
    with pytest.raises(ValueError):
        Writer(llm, "dialogue").log_probabilities(sources, [(), ()], pools[:1])


def test_lists_of_other_lengths_are_refused(llm: TransformersLLM) -> None:
    writer = Writer(llm, "summarization", max_new_tokens=4)
    before = llm.usage.batches
    for rows in (0, 1, 3):
        with pytest.raises(ValueError):
            writer.answer(["a text", "another text"], [()] * rows)
    for seeds in ([], [1], [1, 2, 3]):
        with pytest.raises(ValueError, match=rf"{len(seeds)} seeds for 2 prompts"):
            writer.samples(["a text", "another text"], [(), ()], 2, temperature=1.0, seeds=seeds)
    assert llm.usage.batches == before
