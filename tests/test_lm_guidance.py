"""Attention guidance: heads look where they are told, layers can be added without effect, and training follows."""

from __future__ import annotations

import copy
import re
from functools import cache

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from lm.batches import Part
from lm.guidance import (
    WEIGHT,
    Guide,
    Head,
    Hint,
    Knowledge,
    Place,
    TokenGuide,
    TokenKnowledge,
    guidance_loss,
    token_hints,
)
from lm.news_hints import LAYERS, answer_hints
from lm.news_world import FACT_WEIGHT, VERDICT_WEIGHT, NewsWorld
from lm.optimization import loss_of
from lm.sequences import Span, TrainingSequence
from lm.train import grown
from mrag_rl.models.bundled import NEWS_QUESTION_LLM


@cache
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    small = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            initializer_range=0.3,
        )
    )
    small.set_attn_implementation("eager")  # which returns attentions
    return small


def ids(rows: int, tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(2, 50, (rows, tokens)))


def attention(tokens: torch.Tensor, head: Head, of: LlamaForCausalLM | None = None) -> np.ndarray:
    """(B, T, T), as the library computes it."""
    attentions = (of or model()).model(tokens, output_attentions=True).attentions
    return np.asarray(attentions[head.layer][:, head.number].detach())


def test_the_loss_is_the_mean_negative_log_of_the_librarys_own_attention() -> None:
    tokens = ids(2, 9)
    guides = [
        [
            TokenGuide(Head(1, 2), np.array([4, 8]), np.array([1, 3])),
            TokenGuide(Head(1, 2), np.array([6]), np.array([0])),
            TokenGuide(Head(2, 0), np.array([5]), np.array([5])),
        ],
        [TokenGuide(Head(0, 3), np.array([7]), np.array([2, 6, 8]))],  # 8 is in the future of 7
    ]
    with torch.no_grad():
        hidden = model().model(tokens, output_hidden_states=True).hidden_states
        loss = guidance_loss(model(), hidden, guides).item()
    first, second, third = (attention(tokens, head) for head in (Head(1, 2), Head(2, 0), Head(0, 3)))
    of_head = [first[0, 4, [1, 3]].sum(), first[0, 8, [1, 3]].sum(), first[0, 6, 0]]
    wanted = -np.mean(np.log(of_head)) - np.log(second[0, 5, 5]) - np.log(third[1, 7, [2, 6]].sum())
    assert loss == pytest.approx(wanted, abs=1e-5)


def test_characters_become_tokens_and_what_predicts_them_looks() -> None:
    starts = np.array([0, 4, 5, 9, 12, 15])
    guides = [
        Guide(Head(0, 0), (9, 15), ((4, 9),)),
        Guide(Head(0, 0, before=False), (9, 15), ((0, 1), (15, 20))),
        Guide(Head(3, 0), (9, 15), ((4, 9),)),  # no such layer
        Guide(Head(0, 4), (9, 15), ((4, 9),)),  # no such head
        Guide(Head(0, 0), (9, 15), ((6, 9),)),  # no token begins there
        Guide(Head(0, 0), (0, 4), ((4, 9),)),  # nothing is before the first
    ]
    found = [[tokens.tolist() for tokens in hint[1:]] for hint in token_hints(guides, starts, model().config, int)]
    assert found == [[[2, 3], [1, 2]], [[3, 4], [0, 5]]]
    known = Knowledge(Place(2, "name"), (4, 9), ("7", "9"), ("5", "7", "9"))
    (hint,) = token_hints([known, known._replace(place=Place(3, "name"))], starts, model().config, int)
    assert hint[0] == known.place
    assert [values.tolist() for values in hint[1:]] == [[1, 2], [0.0, 0.5, 0.5], [5, 7, 9]]


def test_what_is_known_is_read_with_the_models_own_output_matrix() -> None:
    tokens = ids(1, 6)
    known = [
        TokenKnowledge(Place(2, "a"), np.array([1, 4]), np.array([0.5, 0.0, 0.5], np.float32), np.array([7, 8, 9])),
        TokenKnowledge(Place(2, "a"), np.array([5]), np.array([1.0, 0.0, 0.0], np.float32), np.array([7, 8, 9])),
        TokenKnowledge(Place(1, "b"), np.array([0]), np.array([0.0, 1.0], np.float32), np.array([3, 4])),
    ]
    with torch.no_grad():
        hidden = model().model(tokens, output_hidden_states=True).hidden_states
        loss = guidance_loss(model(), hidden, [known]).item()
        second, first = (model().lm_head(model().model.norm(hidden[layer]))[0] for layer in (2, 1))
        among = second[[1, 4, 5]][:, [7, 8, 9]].log_softmax(dim=-1)
        wanted = -(among[:2, [0, 2]].mean(dim=-1).sum() + among[2, 0]) / 3 - first[0, [3, 4]].log_softmax(dim=-1)[1]
    assert loss == pytest.approx(wanted.item(), abs=1e-5)


def test_a_batchs_loss_has_the_guides_and_training_by_it_moves_the_attention() -> None:
    tokens = ids(1, 12)
    head = Head(1, 1)
    guide = TokenGuide(head, np.array([10]), np.array([2]))
    shape = tokens.shape
    plain = Part(tokens, tokens, torch.ones(shape))
    guided = Part(tokens, tokens, torch.ones(shape), hints=([guide],), batch=4)
    with torch.no_grad():
        difference = loss_of(model(), guided, "float32", 11.0) - loss_of(model(), plain, "float32", 11.0)
    assert difference.item() == pytest.approx(-WEIGHT / 4 * np.log(attention(tokens, head)[0, 10, 2]), abs=1e-5)

    learner = copy.deepcopy(model())
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        hidden = learner.model(tokens, output_hidden_states=True).hidden_states
        guidance_loss(learner, hidden, [[guide]]).backward()
        optimizer.step()
    assert attention(tokens, head)[0, 10, 2] < 0.5 < 0.9 < attention(tokens, head, learner)[0, 10, 2]


def test_new_layers_in_the_middle_change_nothing_at_first_and_can_learn() -> None:
    tokens = ids(2, 7)
    larger = grown(model(), 5)
    with torch.no_grad():
        assert torch.allclose(larger(tokens).logits, model()(tokens).logits, atol=1e-5)
    assert larger.config.num_hidden_layers == 5 and model().config.num_hidden_layers == 3
    assert grown(model(), 2) is model()
    larger(tokens, labels=tokens).loss.backward()
    for layer in larger.model.layers[1:3]:
        assert layer.self_attn.o_proj.weight.grad.abs().max() > 0
        assert layer.mlp.down_proj.weight.grad.abs().max() > 0


@cache
def world() -> NewsWorld:
    return NewsWorld(0, questions=160)


@cache
def sequences() -> list[TrainingSequence]:
    rng = np.random.default_rng(3)
    return [world().sequence(rng, "answer", 6, 1.0, 6) for _ in range(25)]


def days_alone() -> TrainingSequence:
    rng = np.random.default_rng(0)
    return next(drawn for _ in range(200) if "Passage" not in (drawn := world().sequence(rng, "answer", 1, 1.0, 2))[0])


@cache
def starts(text: str) -> np.ndarray:
    """The first characters of the bundled model's tokens."""
    tokenizer = AutoTokenizer.from_pretrained(NEWS_QUESTION_LLM)
    return np.array([start for start, _ in tokenizer(text, return_offsets_mapping=True)["offset_mapping"]])


def hints_of(text: str, spans: list[Span]) -> list[Hint]:
    return answer_hints(text, [span for span in spans if span[2] == FACT_WEIGHT], starts(text))


def assert_known(text: str, hint: Knowledge) -> None:
    """Each number is that of a passage that the tokens are of, that has the name, or that the finding names."""
    known = text[slice(*hint.knowing)]
    assert hint.words and {*hint.words} <= {*hint.among}
    if hint.place.kind == "judged":
        verdict = re.compile(r"[^()]*\): (Yes|No)").match(text, hint.knowing[1])
        assert verdict is not None and {*hint.words} <= {"Yes", "No"}
        return
    for number in hint.words:
        passage = re.search(rf"^Passage {number} \((.*?)\): .*", text, re.MULTILINE)
        assert passage is not None
        if hint.place.kind in ("above", "body"):
            assert passage.start() < hint.knowing[0] < hint.knowing[1] <= passage.end()
        elif hint.place.kind == "name":
            assert known in passage[1]
        elif hint.place.kind == "found":
            assert known == number
    if hint.place.kind == "asked":
        assert known in hint.words


def test_answers_are_guided_to_the_passage_and_the_sentence_that_they_name() -> None:
    kinds: dict[Head | Place, int] = {}
    for text, spans in sequences():
        facts = [span for span in spans if span[2] == FACT_WEIGHT]
        for hint in hints_of(text, spans):
            kinds[hint[0]] = kinds.get(hint[0], 0) + 1
            if isinstance(hint, Knowledge):
                assert_known(text, hint)
                continue
            head, looking, at = hint
            said, seen = text[slice(*looking)], [text[slice(*span)] for span in at]
            if head == Head(1, 3, before=False):  # a name
                assert {*seen} == {said} and all(text.count("Passage ", 0, start) for start, _ in at)
            elif head in (Head(0, 2, before=False), Head(0, 3, before=False)) and " (asked" in seen[0]:
                assert text.rindex(" (asked:", 0, looking[0]) == at[0][0]
            elif head == Head(0, 2, before=False):  # what is asked looks for itself in what was found
                assert text.rindex("] ", 0, text.rindex(" (asked:", 0, looking[0])) < at[0][0] < looking[0]
                assert {piece.strip() for piece in seen} == {said.strip()} or said.strip(" -").isdecimal()
            elif head == Head(2, 3):  # the verdict, at what decides it
                assert said in ("Yes", "No", " after", " before")
                assert text.rindex(" (asked:", 0, looking[0]) < at[0][0] < looking[0]
            elif head == Head(3, 3):  # the answer, at the verdicts
                assert set(seen) == {said} <= {"Yes", "No"}
            elif head == Head(1, 1):  # a list of the passages that state a claim, at the claim's value
                assert text.endswith(f"{seen[0]} {{", 0, text.rindex("{", 0, looking[0]) + 1)
            elif not head.before:
                assert text.rfind("Passage ", 0, at[0][0] + 1) == text.rfind("Passage ", 0, looking[0])
            elif head in (Head(2, 0), Head(2, 1)):  # the lists of source and organisation, or of a claim
                assert said in [number.strip() for number in seen]
            elif head == Head(2, 2):  # one of a list
                start = at[0][0]
                assert text.rindex(f"\nPassage {said.strip()} (", 0, start) == text.rindex("\nPassage ", 0, start)
                name = text[: text.rindex(" {", 0, looking[0])].lower()
                assert name.endswith(seen[0].lower()) or text[start - 2 : start] == ", "  # A longer name of a source
            elif head == Head(4, 0):  # the number
                assert [span.strip() for span in seen] == [said]
                assert text[: at[0][0]].endswith("Passage")
            elif head == Head(4, 1):  # a character of the value or of the answer
                assert len(said) == 1 and (said.lower() == seen[0].lower() or not said.isalnum())
            elif head in (Head(3, 0), Head(3, 1)):  # the sentence
                number = text[text.rfind("[", 0, looking[0] + 1) + 1]
                for start, _ in at:
                    assert text[text.rfind("\nPassage ", 0, start) :].startswith(f"\nPassage {number} ")
                assert set(at) <= {(start, end) for start, end, _ in facts}
            else:
                assert head == Head(0, 0)  # the claim
    assert len(kinds) == 18 + 6 and {kind.layer for kind in kinds} == set(range(LAYERS))
    looked_up = sum(text.count("]") for text, _ in sequences() if "Passage" in text)
    assert kinds[Head(4, 0)] > 0.9 * looked_up > 0


@pytest.mark.parametrize(
    ("found", "asked", "verdict", "decides", "judged"),
    [
        ("731", "731", "Yes", [" 731"], ["Yes"]),
        ("731", "87", "No", [" 87"], ["No"]),
        ("87 crowns", "47 crowns", "No", [" 47"], ["No", "Yes"]),
        ("731", "other than 87", "Yes", [" 87"], ["No"]),
        ("731", "other than 731", "No", [" 731"], ["Yes"]),
        ("2024-06-25", "after 2024-06-24; after", "Yes", ["24"], ["either", "either", "Yes", "Yes"]),
        ("2024-05-30", "after 2024-06-24; before", "No", ["06"], ["either", "No", "Yes", "No"]),
    ],
)
def test_a_verdict_is_guided_to_the_first_token_that_decides_it(
    found: str, asked: str, verdict: str, decides: list[str], judged: list[str]
) -> None:
    text = (
        "Passage 1 (Title, Source, 2024-06-24): It is so.\nThe question to answer: Is it?\n"
        f"Answer: Source {{1}}, it: [1] {found} (asked: {asked}): {verdict}."
    )
    hints = answer_hints(text, [], starts(text))
    deciding = [hint for hint in hints if isinstance(hint, Guide) and hint.head == Head(2, 3)]
    assert [text[slice(*span)] for span in deciding[0].at] == decides
    assert text[slice(*deciding[-1].looking)] == verdict
    order = asked.partition(";")[2]
    assert len(deciding) == 1 + bool(order) and text[slice(*deciding[0].looking)] == (order or verdict)
    assert not order or text[slice(*deciding[1].at[0])] == order
    known = [hint.words for hint in hints if isinstance(hint, Knowledge) and hint.place.kind == "judged"]
    assert known == [("Yes", "No") if words == "either" else (words,) for words in judged]


def test_pairs_of_days_alone_are_guided_like_answers() -> None:
    text, spans = days_alone()
    learned = {text[start:end] for start, end, weight in spans if weight == VERDICT_WEIGHT}
    assert learned == {"after", "before", "Yes", "No"}
    hints = hints_of(text, spans)
    pairs = text.count("(asked: after ")
    deciding = [hint for hint in hints if isinstance(hint, Guide) and hint.head == Head(2, 3)]
    assert pairs > 20 and len(deciding) == 2 * pairs
    for found, asked, order, verdict in re.findall(r"\] ([\d-]+) \(asked: after ([\d-]+); (\w+)\): (\w+)\.", text):
        assert (order, verdict) == (("after", "Yes") if found > asked else ("before", "No")) and found != asked


def test_other_sequences_are_not_guided() -> None:
    rng = np.random.default_rng(3)
    for task in ("filter", "queries"):
        text, _ = world().sequence(rng, task)
        assert answer_hints(text, [], starts(text)) == []
