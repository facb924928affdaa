"""report.html: one file that parses, shows every text as it is and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate
from mrag_rl.data import load_pairs
from mrag_rl.memory import MemoryDatabase
from mrag_rl.report import Answer, Column, Fact, Partition, Query, Report, Retrieved, Setting, Table, render
from mrag_rl.report.texts import Piece, differences, shown
from tests.pages import Page

HOSTILE = (
    '</script><script>alert("1")</script> "quoted" \'single\' <b>bold</b> &amp; {{ 7 * 7 }} --> \u202egnirts\u2066 \x07'
)
HALF = "\ud800 half"


def check(page: Page) -> None:
    """What holds of every report: accessible names, unique identifiers, nothing loaded, one script, allowed by hash."""
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        for name in ("src", "href", "xlink:href", "action"):
            link = attributes.get(name) or "#"
            assert link.startswith("#") or (tag == "image" and link.startswith("data:image/png;base64,")), (tag, link)
        assert not [name for name in attributes if name.startswith("on")]
        target = attributes.get("href")
        assert target is None or not target.startswith("#") or target[1:] in ids, target
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.named("th"))
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in page.named("svg"))
    assert page.named("html") == [{"lang": "en"}] and len(page.named("h1")) == len(page.named("main")) == 1
    (policy,) = [row["content"] for row in page.named("meta") if row.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and "default-src 'none'" in policy and len(page.named("script")) <= 1
    for script in page.texts.get("script", []):
        assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy


def a_query(text: str, *, memories: int = 1, partitions: int = 2, heads: int = 3, systems: Sequence[str] = ()) -> Query:
    return Query(
        id=text[:300],
        source=text,
        reference=text,
        partition=text[:300],
        trusted=True,
        partitions=[
            Partition(text[:300], 3, 0.1, 1.5, np.linspace(-1, 1, heads).tolist(), place == 0)
            for place in range(partitions)
        ],
        left_out=0,
        memories=[Retrieved(text[:300], 0.5, text, f"was {text}", f"is {text}", 1)] * memories,
        answers=[Answer(name, text[:300], text, [50.0]) for name in ("m_rag", "naive", *systems)],
        gain=0.0,
    )


def a_report(queries: Sequence[Query], text: str = "words") -> Report:
    return Report(
        title=text,
        summary=text,
        facts=[Fact(text, text)],
        settings=[Setting("seed", "1", "0"), Setting(text, text, text)],
        tables=[Table(text, [Column(text, False), Column(text)], [[text, text]], marked=text)],
        notes=text,
        pictures=[],
        metrics=[text],
        queries=queries,
        of=len(queries),
    )


def test_a_run_has_a_report_of_all_it_needs_and_loads_nothing(finished: Path) -> None:
    text = (finished / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    check(page)
    results = json.loads((finished / "results.json").read_text())
    score = results["systems"]["m_rag"]["rouge1"]
    assert f"{score['value']:.2f} [{score['low']:.2f}, {score['high']:.2f}]" in page.text("p")
    assert set(results["systems"]) <= {cell.strip() for cell in page.texts["th"]}
    headings = [heading.strip() for heading in page.texts["h2"] if heading.strip()]
    assert headings == ["Results", "Figures", "Queries", "Settings"]
    pictures = {attributes["id"] for attributes in page.named("figure")}
    assert pictures == {
        f"figure-{name}"
        for name in (
            "headline", "learning_curves", "partition_shares", "reward_by_partition", "label_by_partition", "margin",
            "gain",
        )
    }  # fmt: skip
    assert len(page.named("svg")) == len(pictures) and "learning curves" in page.text("text").lower()
    changed = text[: text.index("settings with their defaults")]
    assert (
        "training.rounds" in changed
        and "reward" not in Page(changed[changed.index("<table>") : changed.index("</table>") + 8]).text()
    )


def test_a_report_shows_what_the_agents_chose_and_why(finished: Path) -> None:
    page = Page((finished / "report.html").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (finished / "answers.jsonl").read_text().splitlines()]
    cards = page.named("article")
    assert [card["data-partition"] for card in cards] == [row["answers"]["m_rag"]["partition"] for row in rows]
    written = page.text("dd")
    with MemoryDatabase.open(finished / "database") as database:
        records = {record.id: record for record in database.records(np.arange(len(database)))}
        used = [records[row["answers"]["m_rag"]["memory"]] for row in rows]
        for row, pair, record in zip(rows, load_pairs(finished / "data" / "test.jsonl"), used, strict=True):
            for shown_text in (pair.source, pair.target, row["answers"]["m_rag"]["hypothesis"], record.source):
                assert shown_text in written
    assert len([1 for tag, attributes in page.elements if tag == "td" and "style" in attributes]) == 12 * 4 * 12
    assert page.texts.get("ins") or all(record.version == 0 for record in used)


def test_the_report_can_be_written_again_also_of_a_later_evaluation(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(small, run, ignore=shutil.ignore_patterns("cache", "checkpoints", "ablations", "*.html", "plots"))
    before = (run / "answers.jsonl").read_text()
    assert evaluate.main(["report", str(run)]) == 0 and "open it in a browser" in capsys.readouterr().out
    assert (run / "report.html").read_text() == (small / "report.html").read_text()
    for plot in (small / "plots").iterdir():
        assert (run / "plots" / plot.name).read_bytes() == plot.read_bytes(), plot.name
    (run / "two").mkdir()
    results: Any = json.loads((run / "results.json").read_text())
    for part in ("systems", "comparisons", "contrasts"):
        results[part] = {name: value for name, value in results[part].items() if name == "naive"}
    (run / "two" / "results.json").write_text(json.dumps(results))
    rows = [json.loads(line) for line in before.splitlines()]
    for row in rows:
        row["answers"] = {name: row["answers"][name] for name in ("naive",)}
    (run / "two" / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert evaluate.main(["report", str(run), "--results", str(run / "two")]) == 0
    page = Page((run / "two" / "report.html").read_text())
    check(page)
    assert not page.named("article") and "M-RAG not among them" in page.text("p")

    for content, problem in (
        ("{}", "not the results"),
        ("[]", "not the results"),
        ('{"part": "../data/test"}', "KeyError"),
    ):
        (run / "two" / "results.json").write_text(content)
        assert evaluate.main(["report", str(run), "--results", str(run / "two")]) == 2
        assert problem in capsys.readouterr().err
    (run / "answers.jsonl").write_text("\n".join(before.splitlines()[1:]))
    assert evaluate.main(["report", str(run)]) == 2
    assert "not the answers to this run's test queries" in capsys.readouterr().err
    (run / "results.json").unlink()
    assert evaluate.main(["report", str(run)]) == 2 and "no results.json in it" in capsys.readouterr().err


@pytest.mark.parametrize("text", [HOSTILE, HALF])
def test_texts_of_others_are_shown_and_never_obeyed(text: str) -> None:
    page = render(a_report([a_query(text)], text))
    page.encode("utf-8")
    parsed = Page(page)
    check(parsed)
    assert len(parsed.named("script")) == 1 and "alert" not in parsed.text("script")
    assert not {"b", "image", "iframe"} & {tag for tag, _ in parsed.elements}
    assert not set("\u202e\u2066\x07\ud800") & set(page)
    for tag in ("title", "h1", "caption", "th", "td", "dd", "dt", "bdi", "option", "p", "span"):
        assert shown(text) in parsed.text(tag), tag
    assert parsed.named("article")[0]["data-partition"] == shown(text)


def test_characters_that_hide_what_a_text_says_are_named_and_letters_are_left_alone() -> None:
    assert shown("a\u202eb\x00\ud800") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+D800⟩"
    for text in ("שלום \u200f", "سلام", "日本\n\tx", "👩\u200d🚀"):
        assert shown(text) == text


@pytest.mark.parametrize(
    ("before", "after", "lost", "won"),
    [
        ("The old bridge closed.", "The new bridge closed!", ["old", "."], ["new", "!"]),
        ("same", "same", [], []),
        ("", "all of it", [], ["all of it"]),
        ("  a  b", "a b", [], []),
        ("a " * 700 + "b c d", "a " * 700 + "e c d", ["b"], ["e"]),
        ("a b " * 5000, "a c " * 5000, None, None),
    ],
)
def test_changed_words_are_marked_and_no_letter_is_lost(
    before: str, after: str, lost: list[str], won: list[str]
) -> None:
    def changed(pieces: list[Piece]) -> list[str]:
        return [piece.text.strip() for piece in pieces if piece.changed and piece.text.strip()]

    left, right = differences(before, after)
    assert ("".join(piece.text for piece in left), "".join(piece.text for piece in right)) == (before, after)
    assert lost is None or (changed(left), changed(right)) == (lost, won)


def test_fifty_queries_with_long_texts_stay_below_five_megabytes() -> None:
    query = a_query("<&\"'ö " * 5_000, partitions=8, heads=32)
    page = render(a_report([replace(query, id=str(number)) for number in range(50)]))
    assert len(page.encode()) < 5_000_000 and "29,000 more characters]" in page
    assert "26,000 more characters]" in render(a_report([query]))
