"""The benchmark of what refined targets gain."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import refined_targets
from benchmarks.refined_targets import NoLLM, chosen, known_gains, left_out, of_all, of_others, shrunk
from mrag_rl.data import load_pairs
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import load_llm, make_writer


def test_gains_are_those_of_the_answers(small: Path) -> None:
    run = RunFolder(small)
    config = run.load_config()
    metric, model = get_metric(target_metric(config)), load_llm(config.llm)
    with CachedLLM(NoLLM(model), run.cache, read_only=True) as llm:
        gains, proposers = known_gains(run, config, llm, metric, run)
    queries = load_pairs(run.pairs("train"))
    assert gains and set(gains) <= set(proposers)
    (memory, target), of_rows = max(gains.items(), key=lambda item: len(item[1]))
    with MemoryDatabase.open(run.database) as database:
        (record,), (original,) = database.records([memory]), database.original_targets([memory])
    writer, rows = make_writer(config, model), [*of_rows]
    before, after = (
        metric.scores(
            writer.answer([queries[row].source for row in rows], [[(record.source, text)]] * len(rows)),
            [queries[row].target for row in rows],
        )
        for text in (original, target)
    )
    np.testing.assert_allclose([*of_rows.values()], 100 * (after - before))


def test_it_runs(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with MemoryDatabase.open(RunFolder(small).database) as database:
        lines = [{"id": memory.id, "source": memory.source, "target": memory.target}
                 for memory in database.records(range(len(database)))]  # fmt: skip
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(
        sys, "argv", ["refined_targets", "--runs", str(small), "--pairs", str(tmp_path / "pairs.jsonl")]
    )
    refined_targets.main()
    printed = capsys.readouterr().out
    assert "gain for a proposing query +" in printed and "shrunk: changes" in printed


def test_a_rule_that_asks_the_proposers_takes_luck_for_gains() -> None:
    """Targets of which none gains anything: each has a query that proposed it because it was lucky."""
    rng = np.random.default_rng(0)
    gains = {(memory, "t"): dict(enumerate(rng.normal(-1, 8, 5).tolist())) for memory in range(100)}
    proposers = {target: {max(rows, key=lambda row: rows[row])} for target, rows in gains.items()}
    changed = {rule: len(chosen(rule(gains, proposers))) for rule in (of_all, of_others, shrunk)}
    assert changed[of_all] > 30 > changed[of_others] > changed[shrunk] == 0
    lost = {rule: left_out(rule, gains, proposers) for rule in changed}
    assert {len(values) for values in lost.values()} == {400}
    assert (lost[shrunk] == 0).all() and (lost[of_others] != 0).any()


def test_the_best_target_above_zero() -> None:
    assert chosen({(1, "a"): 0.5, (1, "b"): 2.0, (2, "a"): 0.0, (3, "c"): -1.0}) == {1: "b"}
