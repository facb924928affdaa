"""mrag-rl ui: the page answers as `ask` does, shows texts as they are, and answers nobody else's forms."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

import evaluate
from mrag_rl.data.records import Document
from mrag_rl.experiments.questions import Session, models_of
from mrag_rl.experiments.settings import QuestionSettings
from mrag_rl.io import write_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.ask import Scope, answer_text
from mrag_rl.runs.settings import AskSettings
from mrag_rl.runs.ui_settings import UISettings
from mrag_rl.ui import Desk, Form, make_app
from mrag_rl.ui.desks import RunDesk, open_desk
from tests.pages import Page
from tests.tiny import write_tiny_llm

ROOT = Path(__file__).parents[1]
HOSTILE = '</textarea><script>alert("1")</script> <b>bold</b> &amp; {{ 7 * 7 }} \u202egnirts'
WIRE, POST = "Harbour Wire", "Hill Post"
DOCUMENTS = [
    Document(f"d{number}", f"The {what} of Ostra", f"{source} says that the {what} of Ostra is new. " * 3, category,
             {"source": source})
    for number, (what, source, category) in enumerate(
        [("bridge", WIRE, "town"), ("ferry", POST, "sea"), ("harbour", WIRE, "sea"), ("school", POST, "town")]
    )
]  # fmt: skip


@dataclass(frozen=True)
class Visit:
    """A desk, and a browser that asks it."""

    desk: Desk
    browser: TestClient
    executor: Executor

    def post(self, form: dict[str, Any], status: int = 200) -> str:
        response = self.browser.post("/", data=form)
        assert response.status_code == status
        checked(response.text)
        return response.text

    def answer(self, form: dict[str, Any]) -> dict[str, Any]:
        """What the desk says to the same form."""
        fields = {name: value if isinstance(value, list) else [value] for name, value in form.items()}
        found: dict[str, Any] = self.executor.submit(self.desk.answer, Form.read(fields)).result()[1]
        return found


@contextmanager
def visit(settings: UISettings) -> Iterator[Visit]:
    with ThreadPoolExecutor(1) as executor:
        opened = open_desk(settings)
        desk = executor.submit(opened.__enter__).result()
        yield Visit(desk, TestClient(make_app(desk, executor, ["localhost"]), "http://localhost"), executor)
        executor.submit(opened.__exit__, None, None, None).result()


@pytest.fixture(scope="module")
def run(finished: Path) -> Iterator[Visit]:
    with visit(UISettings(run=str(finished))) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, and a language model with random weights."""
    folder = tmp_path_factory.mktemp("ui")
    write_jsonl(folder / "d.jsonl", [asdict(document) for document in DOCUMENTS])
    write_tiny_llm(folder / "llm", ["bridge || harbour || council || striker || river || the || a || new"] * 3)
    return folder


@pytest.fixture(scope="module")
def documents(folder: Path) -> Iterator[Visit]:
    with visit(UISettings(documents=str(folder / "d.jsonl"), llm=str(folder / "llm"))) as found:
        yield found


def checked(page: str) -> Page:
    """What holds of every page: it parses, identifiers are unique, everything that can be filled in has a name."""
    parsed = Page(page)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) and len(parsed.named("h1")) == len(parsed.named("script")) == 1
    for_ids = {attributes.get("for") for attributes in parsed.named("label")}
    for field in parsed.named("textarea"):
        assert field.get("aria-label") or field.get("id") in for_ids
    assert all(not attribute.startswith("on") for _, attributes in parsed.elements for attribute in attributes)
    return parsed


def filled(page: str) -> dict[str, str]:
    """The text fields of a form as a browser would send them."""
    fields = re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    return {name: unescape(text) for name, text in fields}


def in_ascii(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page))


def test_a_run_answers_as_ask_does(run: Visit, finished: Path) -> None:
    text, names = "the council met on the bridge", list(run.desk.names)
    condition = '{"labels": {"$exists": true}}'
    for form, given in (
        ({"allowed": names}, {}),
        ({"allowed": names[:2], "filter": condition}, {"allowed": tuple(names[:2]), "filter": condition}),
        ({}, {"allowed": ()}),
    ):
        expected = answer_text(AskSettings(run=str(finished), text=text, **given))
        found = run.answer({"text": text, **form})
        assert found["answer"] == expected
        assert [row.name for row in found["partitions"] if row.chosen] == list(filter(None, [expected["partition"]]))
        page = run.post({"text": text, **form})
        assert (expected["hypothesis"] or "(empty)") in in_ascii(page) and filled(page)["text"] == text
        assert all(memory["target"] in in_ascii(page) for memory in expected["memories"])
        ticked = [row["value"] for row in Page(page).named("input") if "checked" in row]
        assert ticked == form.get("allowed", [])


def test_what_may_not_be_read_is_nowhere_on_the_page(finished: Path) -> None:
    with MemoryDatabase.open(finished / "database") as database:
        names = database.names
    with visit(UISettings(run=str(finished), allowed=tuple(names[:1]))) as found:
        assert found.desk.names == names[:1]
        pages = found.browser.get("/").text, found.post({"text": "the council", "allowed": names[:1]})
        assert not any(f">{name}<" in page for page in pages for name in names[1:])
        hidden, unknown = (found.post({"text": "a", "allowed": name}, 400) for name in (names[1], "nowhere"))
        assert hidden == unknown.replace("nowhere", names[1])


def test_documents_answer_as_ask_does_and_what_was_read_can_be_edited(documents: Visit, folder: Path) -> None:
    question, names = f"What does {WIRE} say of the bridge?", ["sea", "town"]
    assert documents.desk.names == names
    settings = QuestionSettings(documents=str(folder / "d.jsonl"), llm=str(folder / "llm"), text=question)
    condition = '{"source": {"$in": ["Hill Post"]}}'
    for form, given in (
        ({"allowed": names}, {}),
        ({"allowed": ["town"], "queries_are": "off", "filter_is": "off"},
         {"allowed": ("town",), "queries": 0, "no_filter": True}),
        ({"allowed": names, "queries_are": "given", "queries": "the ferry\r\n\r\nthe school\r\n", "filter_is": "given",
          "filter": condition}, {"query": ("the ferry", "the school"), "filter": condition}),
        ({}, {"allowed": ()}),
    ):  # fmt: skip
        expected = Session.open(replace(settings, **given), models_of(settings)).answer(question)
        assert documents.answer({"text": question, **form})["answer"] == expected
        page = documents.post({"text": question, **form})
        shown, fields = in_ascii(page), filled(page)
        assert all(query in shown for query in expected["queries"])
        assert all(passage["text"] in shown for passage in expected["passages"])
        assert json.loads(fields["filter"] or "{}") == expected["filter"]
        assert list(filter(None, fields["queries"].splitlines())) == expected["queries"][1:]
    assert {
        passage["metadata"]["source"]
        for passage in documents.answer({"text": question, "allowed": names})["answer"]["passages"]
    } == {WIRE}


def test_without_a_language_model_there_are_passages(folder: Path) -> None:
    with visit(UISettings(documents=str(folder / "d.jsonl"), llm="none", allowed=("sea",))) as found:
        page = found.post({"text": "the ferry", "allowed": "sea"})
        assert "There is no language model" in page and DOCUMENTS[1].text.strip() in in_ascii(page)
        assert "town" not in page and "written by the language model" not in page


def test_texts_are_shown_and_not_run(run: Visit, documents: Visit) -> None:
    for found in (run, documents):
        page = found.post({"text": HOSTILE, "allowed": list(found.desk.names)})
        assert filled(page)["text"] == HOSTILE.replace("\u202e", "⟨U+202E⟩")
        assert "<b>bold" not in page and "alert(" not in "".join(Page(page).texts["script"])


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"text": " "}, "there is no text to answer"),
        ({"text": "a" * 20_001}, "20,001 characters"),
        ({"text": "a", "filter_is": "given"}, "there is no filter"),
        ({"text": "a", "filter_is": "given", "filter": '{"source": '}, "filter: "),
        ({"text": "a", "queries_are": "given", "queries": " \n"}, "there are no further queries"),
        ({"text": "a", "queries_are": "given", "queries": "q\n" * 100_000}, "100,000 further queries; give 8 or fewer"),
        ({"text": "a", "queries_are": "all"}, "queries_are is all; it must be one of own, given, off"),
    ],
)
def test_a_mistake_is_said_on_the_page_and_nothing_that_was_written_is_lost(
    form: dict[str, str], says: str, documents: Visit
) -> None:
    page = documents.post({"allowed": ["sea"], **form}, 400)
    (alert,) = re.findall(r'role="alert"[^>]*>(.*?)</p>', page, re.DOTALL)
    assert says in unescape(alert)
    fields = filled(page)
    assert all(fields[name] == text for name, text in form.items() if name in fields)
    assert [
        row["value"] for row in Page(page).named("input") if row.get("type") == "checkbox" and "checked" in row
    ] == ["sea"]


def test_other_sites_get_nothing(run: Visit) -> None:
    ask = {"text": "the council", "allowed": run.desk.names[0]}
    assert run.browser.get("/", headers={"host": "attacker.example"}).status_code == 400
    assert run.browser.post("/", data=ask, headers={"host": "attacker.example"}).status_code == 400
    for headers in (
        {"origin": "http://attacker.example"}, {"origin": "null"}, {"origin": "http://localhost:1"},
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
    ):  # fmt: skip
        assert run.browser.post("/", data=ask, headers=headers).status_code == 403
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    response = run.browser.post("/", data=ask, headers=own)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    (script,) = Page(response.text).texts["script"]
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert response.headers["cache-control"] == "no-store" and "access-control-allow-origin" not in response.headers
    assert run.browser.post("/", content=b"a" * 1_000_001).status_code == 413
    assert run.browser.get("/other").status_code == 404


def test_the_command_serves_the_page_until_it_is_interrupted(folder: Path) -> None:
    command = [
        sys.executable,
        "evaluate.py",
        "ui",
        "--documents",
        str(folder / "d.jsonl"),
        "--llm",
        "none",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stderr is not None
        try:
            found = re.fullmatch(r"Open (http://127\.0\.0\.1:\d+) in a browser .*\n", server.stdout.readline())
            assert found
            form = urlencode({"text": "the ferry", "allowed": "sea"}).encode()
            with urlopen(f"{found[1]}/", form, timeout=60) as response:
                assert DOCUMENTS[1].text.strip() in in_ascii(response.read().decode())
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0 and "Traceback" not in server.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give either a run folder, or --documents or --index"),
        (["runs/a", "--documents", "bundled"], "give either a run folder"),
        (["runs/a", "--llm", "none"], "--llm goes with --documents or --index"),
        (["--documents", "bundled", "--trust", "a:b"], "--trust goes with a run"),
        (["runs/none"], "runs/none"),
        (["--documents", "bundled", "--host", "here"], "host is here; give an IPv4 address"),
        (["--documents", "bundled", "--host", "0.0.0.0"], "name with --names"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate.main(["ui", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_port_that_is_taken_and_names_that_do_not_exist_are_said(
    folder: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert evaluate.main(["ui", str(finished), "--port", port]) == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
    for arguments in ([str(finished)], ["--documents", str(folder / "d.jsonl"), "--llm", "none"]):
        assert evaluate.main(["ui", *arguments, "--allowed", "nowhere", "--port", "0"]) == 2
        assert "'nowhere'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ticked", "read"),
    [
        (("court", "farm", "whole database", "no memory"), None),
        (("court", "whole database", "no memory"), ("court", "no memory")),
        (("whole database",), ()),
        (("court", "farm", "no memory"), ("court", "farm", "no memory")),
    ],
)
def test_without_a_partition_the_whole_database_is_not_read_either(
    ticked: tuple[str, ...], read: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an arm that Agent-S may choose: every memory belongs to it."""

    class Database:
        names, is_arm = ("court", "farm", "whole database", "no memory"), [False, False, True, True]

    scopes = []
    monkeypatch.setattr(Scope, "of", lambda database, allowed, condition: scopes.append(allowed))
    answered: dict[str, Any] = {"partitions": [], "partition": None}
    desk = RunDesk("a run", None, Database.names, Database(), lambda texts, scope: [answered])  # type: ignore[arg-type]
    form, _ = desk.answer(Form(text="A text.", allowed=ticked))
    assert scopes == [read] and form.allowed == (ticked if read is None else read)
