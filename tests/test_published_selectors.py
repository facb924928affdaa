"""The selectors in `selectors/`: they load, and find the desks of a newsroom that they have never seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

from mrag_rl import Selector
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.memory import MemoryDatabase
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.states import StateReader
from tests.tiny import encoder

FOLDERS = sorted(path for path in (Path(__file__).parents[1] / "selectors").iterdir() if path.is_dir())


def test_there_is_one_for_each_task() -> None:
    tasks = {Selector.from_pretrained(folder).info.task for folder in FOLDERS}
    assert tasks == {"summarization", "translation", "dialogue"} and len(FOLDERS) == 3


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_chooses_the_desk_of_queries_of_another_world(folder: Path, tmp_path: Path) -> None:
    selector = Selector.from_pretrained(folder)
    card = ModelCard.load(folder / "README.md")
    assert {result.dataset_split for result in card.data["eval_results"]} == {"test"}
    assert selector.info.encoder_fingerprint == encoder().fingerprint
    world = make_newsroom(selector.info.task, seed=11, database=120, train=4, dev=4, test=80)
    embeddings = encoder().encode([pair.source for pair in world.database])
    labels = [pair.labels for pair in world.database]
    partitioning = fit_partitioning("category", embeddings.standard, labels=labels, seed=0)
    with MemoryDatabase.create(
        tmp_path / "desks", world.database, embeddings, partitioning, encoder_fingerprint=encoder().fingerprint
    ) as database:
        texts = [pair.source for pair in world.test]
        queries = encoder().encode(texts)
        chosen = selector.select(StateReader(database, selector.info.state)(texts, queries))
        nearest = database.states(queries, "single")[:, :, 0].argmax(axis=1)
        desks = [database.names.index(pair.labels[0]) for pair in world.test]
    share = np.mean(chosen == desks)
    assert share > np.mean(nearest == desks)
    # In dialogue, what matters of a text is the speaker's mood, and what that is worth only a ledger of scores tells.
    assert share > 0.6 or selector.info.task == "dialogue"
