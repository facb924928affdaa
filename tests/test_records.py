"""Pairs, documents and queries: loading, bad lines, splits."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrag_rl.data import TextPair, load_documents, load_pairs, load_queries, save_pairs, split_pairs
from mrag_rl.data.splits import Splits, pair_groups
from mrag_rl.data_config import DataConfig, SplitFiles
from mrag_rl.errors import InputError
from mrag_rl.io import write_jsonl
from mrag_rl.runs.splits import read_splits

PARTS = ("database", "train", "dev", "test")
some_text = st.text(min_size=1).filter(str.strip).filter(lambda text: text.encode("utf-8", "ignore").decode() == text)


@given(st.lists(st.builds(TextPair, some_text, some_text, some_text, st.lists(some_text, max_size=2).map(tuple),
                          st.dictionaries(some_text, st.integers(-(2**63), 2**63 - 1) | some_text, max_size=2)),
                min_size=1, max_size=5, unique_by=lambda pair: pair.id))  # fmt: skip
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_saved_pairs_load_back_equal(tmp_path: Path, pairs: list[TextPair]) -> None:
    save_pairs(tmp_path / "pairs.jsonl", pairs)
    assert load_pairs(tmp_path / "pairs.jsonl") == pairs


GOOD = '{"id": "1", "source": "s", "target": "t"}'


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "2", "source": "s", "target": }', "not valid JSON"),
        ("[1]", "a list, not an object"),
        ('{"source": "s", "target": "t"}', 'no "id"'),
        ('{"id": "2", "source": "s"}', 'no "target"'),
        ('{"id": "2", "source": "s", "target": " "}', '"target" is empty'),
        ('{"id": "2", "source": null, "target": "t"}', '"source" is null; give a string'),
        ('{"id": "1", "source": "s", "target": "t"}', r'duplicate id "1" \(first on line 1\)'),
        ('{"id": true, "source": "s", "target": "t"}', '"id" is true or false'),
        ('{"id": "2", "source": "s", "target": "t", "labels": "a"}', '"labels" is a string; give a list'),
        ('{"id": "2", "source": "s", "target": "t", "labels": [1]}', '"labels" contains a number'),
        ('{"id": "2", "source": "s", "target": "t", "labels": [""]}', '"labels" contains an empty string'),
        ('{"id": "2", "source": "s", "target": "t", "metadata": []}', '"metadata" is a list'),
        ('{"id": "2", "source": "s", "tagret": "t"}', 'unknown key "tagret"; did you mean "target"'),
        ('{"id": "2", "source": "s", "target": "t", "label": ["a"]}', 'did you mean "labels"'),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n")
    with pytest.raises(InputError, match=rf"pairs\.jsonl:3: .*{says}") as caught:
        load_pairs(path)
    assert "\n" not in str(caught.value)


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no pair in the file"):
        load_pairs(tmp_path / "pairs.jsonl")


def test_a_key_is_compared_with_the_known_ones_once_for_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    close = difflib.get_close_matches

    def noted(key: str, keys: Sequence[str], n: int, cutoff: float) -> list[str]:
        compared.append(key)
        return close(key, keys, n=n, cutoff=cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", noted)
    rows = ({"id": str(n), "source": "s", "target": "t", "Classification": "x"} for n in range(20))
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    assert [pair.metadata for pair in load_pairs(tmp_path / "pairs.jsonl")] == [{"Classification": "x"}] * 20
    assert compared == ["classification"]


def test_other_keys_are_kept_as_metadata_and_whole_numbers_make_ids(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": 7, "text": "t", "filter": {"a": 1}, "questions": ["q", ""]}')
    (query,) = load_queries(tmp_path / "q.jsonl")
    assert (query.id, query.metadata, query.questions) == ("7", {"filter": {"a": 1}}, ("q",))


def test_documents_load_with_their_defaults(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(
        '{"id": "a", "text": "t"}\n{"id": "b", "text": "u", "category": "c", "title": "T"}'
    )
    first, second = load_documents(tmp_path / "d.jsonl")
    assert (first.title, first.category) == ("", "")
    assert (second.title, second.category) == ("T", "c")


def dialogues(count: int, turns: int) -> list[TextPair]:
    return [TextPair(f"{d}.{turn}", f"s{d}", f"t{turn}") for d in range(count) for turn in range(turns)]


def ids(splits: Splits) -> dict[str, list[str]]:
    return {part: [pair.id for pair in getattr(splits, part)] for part in PARTS}


def test_a_split_uses_every_pair_once_and_follows_the_seed() -> None:
    pairs = dialogues(50, 1)
    parts = ids(split_pairs(pairs, train=0.2, dev=0.1, test=0.1, seed=3))
    assert {part: len(identifiers) for part, identifiers in parts.items()} == {
        "database": 30,
        "train": 10,
        "dev": 5,
        "test": 5,
    }
    assert sorted(identifier for identifiers in parts.values() for identifier in identifiers) == sorted(
        pair.id for pair in pairs
    )
    assert parts == ids(split_pairs(pairs, train=0.2, dev=0.1, test=0.1, seed=3))
    assert parts != ids(split_pairs(pairs, train=0.2, dev=0.1, test=0.1, seed=4))


def test_more_training_queries_do_not_change_the_test_set() -> None:
    pairs = dialogues(50, 1)
    small, large = (ids(split_pairs(pairs, train=share, seed=0)) for share in (0.1, 0.5))
    assert small["test"] == large["test"]
    assert small["dev"] == large["dev"]


@given(st.integers(0, 1000), st.integers(6, 30), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_turns_of_a_dialogue_stay_in_one_part(seed: int, count: int, turns: int) -> None:
    parts = ids(split_pairs(dialogues(count, turns), group=r"^([^.]+)\.", seed=seed))
    owners = [{identifier.split(".")[0] for identifier in identifiers} for identifiers in parts.values()]
    assert sum(map(len, owners)) == count
    assert len(set.union(*owners)) == count


def test_dialogues_with_a_pair_in_common_are_one_group_named_like_the_first() -> None:
    pairs = [
        TextPair(name, source, "target")
        for name, source in [("a.1", "s1"), ("b.1", "s2"), ("a.2", "s3"), ("c.1", "s4"), ("b.2", "s1"), ("c.2", "s1!")]
    ]
    assert pair_groups(pairs, r"^([^.]+)") == ["a", "a", "a", "c", "a", "c"]
    with pytest.raises(InputError, match="does not match the id 'a\\.1'"):
        pair_groups(pairs, "^[0-9]")


def test_an_expression_that_would_take_for_ever_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.data.splits.LONGEST_MATCH", 0.05)
    slow = "a" * 40 + "ba"
    assert pair_groups([TextPair("aab", "s", "t")], "^(a|a)*b$") == ["a"]
    for identifier, shown in ((slow, f"'{slow}'"), ("a" * 200 + "ba", f"'{'a' * 100}...'")):
        with pytest.raises(InputError) as caught:
            pair_groups([TextPair("aab", "s", "t"), TextPair(identifier, "s", "t")], "^(a|a)*b$")
        assert f"group '^(a|a)*b$' takes longer than 0.05 s on the id {shown}; write it" in str(caught.value)


@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=8))
@settings(max_examples=30, deadline=None)
def test_dialogues_with_a_pair_in_common_stay_in_one_part(seed: int, twins: list[tuple[int, int]]) -> None:
    pairs = dialogues(30, 3)
    for number, (one, other) in enumerate(twins):  # A turn that two dialogues share
        pairs += [TextPair(f"{d}.{number + 3}", "shared", f"turn {number}") for d in {one, other}]
    splits = split_pairs(pairs, group=r"^([^.]+)\.", seed=seed)
    owner = {pair.id.split(".")[0]: part for part in PARTS for pair in getattr(splits, part)}
    assert all(owner[str(one)] == owner[str(other)] for one, other in twins)
    assert sum(len(getattr(splits, part)) for part in PARTS) == len(pairs)
    where = {(pair.source, pair.target): part for part in PARTS for pair in getattr(splits, part)}
    assert all(where[pair.source, pair.target] == part for part in PARTS for pair in getattr(splits, part))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"train": 0.0}, "train=0.0 is outside"),
        ({"test": 1.5}, "test=1.5 is outside"),
        ({"train": 0.5, "dev": 0.3, "test": 0.2}, "leave no database"),
        ({"group": "("}, "not a regular expression"),
        ({"group": "x"}, "does not match the id '0.0'"),
        ({"group": "(x)?0"}, "without its first group"),
        ({"group": r"\d\.(\d)"}, "leave the split .* empty"),
    ],
)
def test_an_impossible_split_says_why(arguments: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        split_pairs(dialogues(4, 2), seed=0, **arguments)


def test_split_files_are_loaded_and_may_not_share_an_id(tmp_path: Path) -> None:
    for part in PARTS:
        save_pairs(tmp_path / part, [TextPair(part, "s", part), TextPair(f"{part} again", "s", part)])
    files = SplitFiles(**{part: str(tmp_path / part) for part in PARTS})

    def read(group: str | None = None) -> Splits:
        return read_splits(DataConfig(files=files, group=group), "summarization")

    splits = read()
    assert ids(splits) == {part: [part, f"{part} again"] for part in PARTS}
    assert splits.known_sources() == 6 and splits.trained_sources() == 2
    test, train = os.fspath(tmp_path / "test"), os.fspath(tmp_path / "train")
    save_pairs(tmp_path / "test", [TextPair("train", "s", "t")])
    with pytest.raises(InputError, match=f'{test}: id "train" is also in {train};'):
        read()
    save_pairs(tmp_path / "test", [TextPair("other", "s", "train")])
    with pytest.raises(InputError, match=f'{test}: pair "other" has .* of "train again" in {train};'):
        read()
    save_pairs(tmp_path / "test", [TextPair("train.2", "s", "test")])
    assert read().test and read("(.+)$").test
    with pytest.raises(InputError, match=f'{test}: id "train.2" is of group "train", which {train} has, too;'):
        read(r"^([^.]+)")
