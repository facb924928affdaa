"""python -m lm.reranker: what it learns from, and that what it writes scores pairs as it was trained to."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForSequenceClassification

from lm import reranker
from lm.news_targets import evidence_of
from lm.news_world import NewsWorld
from lm.reranker import HEADING, Group, draw_group, loss_of, make_tokenizer, measure_ranking, train
from mrag_rl.command_line import run_command
from mrag_rl.models.bundled import NEWS_QUESTION_LLM
from mrag_rl.retrieval.rerank import CrossEncoder


@cache
def world() -> NewsWorld:
    return NewsWorld(0, questions=160)


def test_of_each_group_the_first_passage_alone_has_evidence_unless_there_is_none() -> None:
    rng = np.random.default_rng(0)
    known = {query.text: query for query in world().queries}
    kinds = set()
    for _ in range(200):
        group = draw_group(rng, world())
        assert 1 <= len(group.passages) == len(group.relevant) <= 8 and not any(group.relevant[1:])
        query = known.get(group.question)  # None if sources are renamed
        if query is None:
            continue
        facts = [item["fact"] for item in evidence_of(query)]
        answerable = query.metadata["question_type"] != "null"
        assert group.relevant[0] == answerable
        kinds.add((answerable, group.passages[0].startswith("title: ")))
        if answerable:
            assert any(fact in group.passages[0] for fact in facts)
        for passage in group.passages[answerable:]:
            # Another report may say the same in the same words, but not with the same heading.
            assert not group.passages[0].startswith("title: ") or not any(fact in passage for fact in facts)
    assert len(kinds) == 4


def test_the_files_score_pairs_as_the_training_did(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer(NEWS_QUESTION_LLM)
    model = LlamaForSequenceClassification.from_pretrained(NEWS_QUESTION_LLM, num_labels=1, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    trained = CrossEncoder.load(str(tmp_path))
    group = Group("Who won?", ("The club won the cup.", "It rained in Birkau all week."), (True, False))
    scores = torch.from_numpy(trained.scores([(group.question, passage) for passage in group.passages]))
    relevant = torch.tensor([1.0, 0.0])
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(scores, relevant) - scores.log_softmax(0)[0]
    assert loss_of(model, tokenizer, group, "float32").item() == pytest.approx(wanted.item(), abs=1e-4)
    first, second = (tokenizer(group.question, passage)["input_ids"] for passage in group.passages)
    assert first.count(tokenizer.eos_token_id) == 2 and first[-1] == second[-1] == tokenizer.eos_token_id
    for heading in (HEADING, ()):
        scores_of = measure_ranking(trained, NewsWorld(0, "dev", 24), heading)
        assert all(0 <= value <= 100 for value in scores_of.values()) and len(scores_of) == 4


@pytest.mark.slow
def test_a_training_writes_a_reranker_and_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, less in (("WORLDS", 2), ("_HELD_OUT", 8), ("_MEASURED", 16)):
        monkeypatch.setattr(reranker, name, less)
    output = tmp_path / "made"
    arguments = ["--steps", "2", "--batch", "2", "--checkpoint-every", "1", "--output", str(output)]
    errors = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(errors):
        patch.setattr(sys, "argv", ["lm.reranker", *arguments])
        assert run_command(train, lambda: "") == 0, errors.getvalue()
        assert run_command(train, lambda: "") == 2 and "exists" in errors.getvalue()
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "before, hits@4" in card and "after, mrr@10" in card and "| 2 |" in card
    assert json.loads((output / "config.json").read_text())["architectures"] == ["LlamaForSequenceClassification"]
    assert not (tmp_path / "made.partial").exists()
    assert CrossEncoder.load(str(output)).scores([("Who won?", "The club won.")]).shape == (1,)
