"""The synthetic worlds' data files: damage is named, with its place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mrag_rl.data.synthetic import data_files
from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.names import Names, names
from mrag_rl.data.synthetic.news_events import NewsWords
from mrag_rl.errors import InputError


@dataclass(frozen=True)
class Sample:
    words: dict[str, tuple[str, ...]]
    pair: tuple[str, str] = ("", "")


def write(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a damaged file in the place of a bundled one."""
    (folder / "sample.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr(data_files, "__file__", str(folder / "data_files.py"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"words": ', "sample.json:1: not valid JSON"),
        ("[]", "the file is not an object"),
        ("{}", 'the object has no "words"'),
        ('{"words": {}, "wrods": {}}', 'the object has an unknown key "wrods"'),
        ('{"words": {"a": "b"}}', r"the object.words.a is not a list"),
        ('{"words": {"a": []}}', r"the object.words.a has 0 entries, not at least 1"),
        ('{"words": {"a": ["b", 1]}}', r"the object.words.a\[1\] is not a string"),
        ('{"words": {}, "pair": ["b"]}', r"the object.pair has 1 entries, not 2"),
    ],
)
def test_damage_is_named_with_its_place(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, text, monkeypatch)
    with pytest.raises(InputError, match=problem):
        load("sample.json", Sample)


def test_a_claim_without_values_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = json.loads((Path(data_files.__file__).parent / "news_events.json").read_text(encoding="utf-8"))
    names()  # read from the bundled file, before another folder takes its place
    del contents["event_types"][1]["claims"][0]["numbers"]
    write(tmp_path, json.dumps(contents), monkeypatch)
    with pytest.raises(InputError, match=r'event_types\[1\].claims\[0\]: no values for "the price of the headset'):
        load("sample.json", NewsWords)


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "__file__", str(tmp_path / "data_files.py"))
    with pytest.raises(InputError, match=r"names\.json: no such file"):
        load("names.json", Names)
