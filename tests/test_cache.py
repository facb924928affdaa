"""The generation cache answers what was computed before, and only that, and survives crowds and damage."""

import multiprocessing
import os
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.errors import InputError
from mrag_rl.generation import Prompt, Usage, messages, prompts, render, translation
from mrag_rl.generation.cache import CachedLLM, entries
from mrag_rl.generation.llm import one_seed_per_prompt
from mrag_rl.generation.prompts import TEMPLATES
from mrag_rl.llm_config import LLMConfig
from mrag_rl.runs.models import with_cache


class EchoLLM:
    """A deterministic stand-in that says what it was asked, so that a wrong cache row shows in the text."""

    def __init__(self, fingerprint: str = "echo", *, chat: bool = False) -> None:
        self.fingerprint = fingerprint
        self.chat = chat
        self.usage = Usage()
        self.asked: list[int] = []

    def render(self, prompt: Prompt) -> str:
        return str(messages(prompt)) if self.chat else render(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int = 1,
        first: int = 0,
        temperature: float = 0.0,
        seeds: int | Sequence[int] = 0,
        max_new_tokens: int = 64,
    ) -> list[list[str]]:
        self.asked.append(len(prompts))
        self.usage.prompts += len(prompts)
        self.usage.generated_tokens += len(prompts) * samples
        return [
            [
                f"{self.fingerprint} {prompt} {i} {temperature} {seed} {max_new_tokens}"
                for i in range(first, first + samples)
            ]
            for prompt, seed in zip(prompts, one_seed_per_prompt(seeds, len(prompts)), strict=True)
        ]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        self.asked.append(sum(len(texts) for texts in completions))
        self.usage.prompts += len(prompts)
        return [
            [-zlib.crc32(f"{self.fingerprint} {prompt} {text} {max_new_tokens}".encode()) / 2**32 for text in texts]
            for prompt, texts in zip(prompts, completions, strict=True)
        ]


def prompts_of(names: Sequence[object]) -> list[Prompt]:
    return [Prompt("dialogue", f"text {name} ü") for name in names]


def test_what_was_computed_is_not_computed_again(tmp_path: Path) -> None:
    llm = EchoLLM()
    cached = CachedLLM(llm, tmp_path / "cache.sqlite")
    first = cached.generate(prompts_of("abc"), samples=2, temperature=1.0, seeds=[1, 2, 3])
    assert first == EchoLLM().generate(prompts_of("abc"), samples=2, temperature=1.0, seeds=[1, 2, 3])
    again = cached.generate(prompts_of("cba"), samples=2, temperature=1.0, seeds=[3, 2, 1])
    assert again == first[::-1] and llm.asked == [3]
    cached.close()
    with CachedLLM(llm, tmp_path / "cache.sqlite") as reopened:
        mixed = reopened.generate(prompts_of("axb"), samples=2, temperature=1.0, seeds=[1, 9, 2])
    assert mixed[0] == first[0] and mixed[2] == first[1] and "text x" in mixed[1][0] and llm.asked == [3, 1]
    assert llm.usage.prompts == 9 and llm.usage.cache_hits == 5 and llm.usage.generated_tokens == 8


def test_more_samples_are_added_to_those_there_are(tmp_path: Path) -> None:
    """As a sweep over the number of candidates asks for them."""
    llm, cold = EchoLLM(), EchoLLM()
    with CachedLLM(llm, tmp_path / "cache.sqlite") as cached:
        cached.generate(prompts_of("a"), temperature=1.0)
        for samples in (2, 3, 5, 4):
            found = cached.generate(prompts_of("ab"), samples=samples, temperature=1.0)
            assert found == cold.generate(prompts_of("ab"), samples=samples, temperature=1.0)
            rest = cached.generate(prompts_of("ab"), samples=samples - 1, first=1, temperature=1.0)
            assert rest == [texts[1:] for texts in found]
    assert llm.usage.generated_tokens == 2 * 5  # one for each text


def test_every_argument_is_part_of_the_key(tmp_path: Path) -> None:
    llm = EchoLLM()
    cached = CachedLLM(llm, tmp_path / "cache.sqlite")
    base: dict[str, Any] = {"samples": 1, "temperature": 1.0, "seeds": 0, "max_new_tokens": 8}
    for change in ({}, {"temperature": 0.5}, {"seeds": 1}, {"max_new_tokens": 9}, {"samples": 3}):
        arguments = base | change
        assert cached.generate(prompts_of("a"), **arguments) == EchoLLM().generate(prompts_of("a"), **arguments)
    assert llm.asked == [1] * 5
    other = CachedLLM(EchoLLM("other"), tmp_path / "cache.sqlite")
    assert other.generate(prompts_of("a"), **base)[0][0].startswith("other")
    demonstrated = [Prompt("dialogue", "text a ü", (("s", "t"),))]
    assert cached.generate(demonstrated, **base) == EchoLLM().generate(demonstrated, **base)


def test_the_key_is_made_of_what_the_model_reads(tmp_path: Path) -> None:
    # The instructions differ, which only a chat model reads; all else of the two prompts is equal.
    tasks = [translation("English", "German"), "same labels"]
    plain = [Prompt(task, "text") for task in tasks]
    instruction = replace(TEMPLATES["translation"], instruction="Translate, but otherwise.")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompts, "TEMPLATES", {**TEMPLATES, "same labels": instruction})
        for chat, computed in ((False, 1), (True, 2)):
            llm = EchoLLM(chat=chat)
            assert (llm.render(plain[0]) == llm.render(plain[1])) is not chat
            with CachedLLM(llm, tmp_path / f"{chat}.sqlite") as cached:
                cached.generate(plain)
                assert cached.render(plain[1]) == llm.render(plain[1])
            assert llm.asked == [computed]


def test_the_kept_end_of_a_long_prompt_is_part_of_the_key(tmp_path: Path) -> None:
    llm = EchoLLM()
    with pytest.MonkeyPatch.context() as patch, CachedLLM(llm, tmp_path / "cache.sqlite") as cached:
        cached.generate(prompts_of("a"))
        patch.setattr(prompts, "TEMPLATES", {"dialogue": replace(TEMPLATES["dialogue"], keep="head")})
        cached.generate(prompts_of("a"))
    assert llm.asked == [1, 1]


def test_greedy_texts_are_shared_by_all_seeds_and_samples(tmp_path: Path) -> None:
    llm = EchoLLM()
    cached = CachedLLM(llm, tmp_path / "cache.sqlite")
    first = cached.generate(prompts_of("ab"), samples=3, seeds=5)
    assert [len(set(row)) for row in first] == [1, 1] and len(first[0]) == 3
    assert cached.generate(prompts_of("ab"), seeds=[8, 9]) == [row[:1] for row in first]
    assert llm.asked == [2]


def test_log_probabilities_are_computed_once_for_each_prompt_and_completion(tmp_path: Path) -> None:
    llm, path = EchoLLM(), tmp_path / "cache.sqlite"
    with CachedLLM(llm, path) as cached:
        texts = [["x", "y"], ["x"], ["x", "x", "z"]]
        first = cached.log_probabilities(prompts_of("aba"), texts, max_new_tokens=8)
        assert first == EchoLLM().log_probabilities(prompts_of("aba"), texts, max_new_tokens=8)
        assert llm.asked == [4] and (llm.usage.prompts, llm.usage.cache_hits) == (3, 0)
    with CachedLLM(llm, path) as cached:
        assert cached.log_probabilities(prompts_of("ab"), [["z", "y"], ["x"]], max_new_tokens=8) == [
            [first[2][2], first[0][1]],
            first[1],
        ]
        assert llm.asked == [4] and (llm.usage.prompts, llm.usage.cache_hits) == (5, 2)
        mixed = cached.log_probabilities(prompts_of("ab"), [["y", "new"], ["x"]], max_new_tokens=8)
        assert mixed == EchoLLM().log_probabilities(prompts_of("ab"), [["y", "new"], ["x"]], max_new_tokens=8)
        assert llm.asked == [4, 1] and (llm.usage.prompts, llm.usage.cache_hits) == (7, 3)
        assert cached.generate(prompts_of("a")) == EchoLLM().generate(prompts_of("a"))


def test_model_limit_and_the_border_of_prompt_and_completion_are_part_of_a_scores_key(tmp_path: Path) -> None:
    llm, path = EchoLLM(), tmp_path / "cache.sqlite"
    with CachedLLM(llm, path) as cached:
        short, long = Prompt("dialogue", "a"), Prompt("dialogue", "c", (("a", "b"),))
        rest = render(long).removeprefix(render(short)) + "x"
        assert render(short) + rest == render(long) + "x"
        scores = [cached.log_probabilities([long], [["x"]]), cached.log_probabilities([short], [[rest]])]
        scores.append(cached.log_probabilities([long], [["x"]], max_new_tokens=9))
        with CachedLLM(EchoLLM("other"), path) as other:
            scores.append(other.log_probabilities([long], [["x"]]))
        assert len({row[0][0] for row in scores}) == 4 and llm.asked == [1, 1, 1]


def test_a_cache_file_of_texts_alone_still_serves(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with CachedLLM(EchoLLM(), path) as cached:
        texts = cached.generate(prompts_of("ab"))
        cached.log_probabilities(prompts_of("a"), [["x"]])
    with sqlite3.connect(path) as connection:  # as earlier versions wrote it
        connection.execute("DROP TABLE log_probabilities")
    connection.close()
    llm = EchoLLM()
    with CachedLLM(llm, path) as cached:
        assert cached.generate(prompts_of("ab")) == texts and llm.asked == []
        expected = EchoLLM().log_probabilities(prompts_of("a"), [["x"]])
        assert [cached.log_probabilities(prompts_of("a"), [["x"]]) for _ in range(2)] == [expected] * 2
        assert llm.asked == [1]


def test_identical_prompts_in_a_call_are_computed_once(tmp_path: Path) -> None:
    llm = EchoLLM()
    cached = CachedLLM(llm, tmp_path / "cache.sqlite")
    texts = cached.generate(prompts_of("aaba"), temperature=1.0, seeds=[0, 0, 0, 1])
    assert texts[0] == texts[1] != texts[3] and llm.asked == [3]
    assert llm.usage.prompts == 4 and llm.usage.cache_hits == 0


def test_more_than_one_select_full_of_keys(tmp_path: Path) -> None:
    llm = EchoLLM()
    cached = CachedLLM(llm, tmp_path / "cache.sqlite")
    prompts = prompts_of(range(1201))
    first = cached.generate(prompts)
    assert cached.generate(prompts) == first and llm.asked == [1201] and len({row[0] for row in first}) == 1201


def write_some(path: Path, start: int) -> None:
    with CachedLLM(EchoLLM(), path) as cached:
        for i in range(start, start + 60):
            cached.generate(prompts_of([i, i + 1, i + 2]), samples=2, temperature=1.0)


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_some, args=(path, start)) for start in (0, 30)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    llm = EchoLLM()
    texts = CachedLLM(llm, path).generate(prompts_of(range(92)), samples=2, temperature=1.0)
    assert llm.asked == [] and texts == EchoLLM().generate(prompts_of(range(92)), samples=2, temperature=1.0)


def test_the_text_stored_first_is_what_both_processes_return(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"

    class Overtaken(EchoLLM):
        def generate(self, prompts: Sequence[Prompt], **arguments: Any) -> list[list[str]]:
            with CachedLLM(EchoLLM(), path) as other:
                stored = other.generate(prompts, **arguments)
            assert stored != [["late"]]
            return [["late"] for _ in prompts]

    assert CachedLLM(Overtaken(), path).generate(prompts_of("a")) == EchoLLM().generate(prompts_of("a"))


def test_a_failing_llm_leaves_nothing_behind(tmp_path: Path) -> None:
    class Failing(EchoLLM):
        def generate(self, prompts: Sequence[Prompt], **arguments: Any) -> list[list[str]]:
            raise KeyboardInterrupt

    path = tmp_path / "cache.sqlite"
    with pytest.raises(KeyboardInterrupt):
        CachedLLM(Failing(), path).generate(prompts_of("ab"))
    assert sqlite3.connect(path).execute("SELECT count(*) FROM texts").fetchone() == (0,)


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"this is no database " * 100)
    with pytest.raises(InputError, match=r"generation cache .*cache.sqlite: .*delete the file"):
        CachedLLM(EchoLLM(), path)
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).execute("CREATE TABLE texts (something)").connection.close()
    with pytest.raises(InputError, match=r"other\.sqlite"):
        CachedLLM(EchoLLM(), other)
    # SQLite's message quotes the schema, which is no text
    other.write_bytes(other.read_bytes().replace(b"CREATE TABLE texts", b"CREATE TABL\xb7 texts"))
    with pytest.raises(InputError, match=r"other\.sqlite: .*delete the file"):
        CachedLLM(EchoLLM(), other)
    with pytest.raises(InputError, match=r"other\.sqlite: .*delete the file"):
        list(entries(other))


def test_damage_found_later_is_named_too(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with CachedLLM(EchoLLM(), path) as cached:
        cached.generate(prompts_of(range(300)))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(InputError, match=r"cache\.sqlite"):
        CachedLLM(EchoLLM(), path).generate(prompts_of(range(300)))


@pytest.mark.parametrize("open_elsewhere", [False, True])
def test_a_cache_that_cannot_be_written_is_read(tmp_path: Path, open_elsewhere: bool) -> None:
    path = tmp_path / "run #1" / "cache.sqlite"
    writer = CachedLLM(EchoLLM("then"), path)
    writer.generate(prompts_of("ab"))
    writer.log_probabilities(prompts_of("a"), [["x", "y"]])
    if not open_elsewhere:
        writer.close()
    before = {file: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    llm = EchoLLM("then")
    with CachedLLM(llm, path, read_only=True) as cached:
        assert cached.generate(prompts_of("abc")) == EchoLLM("then").generate(prompts_of("abc"))
        assert llm.asked == [1] and cached.usage.cache_hits == 2
        scores = EchoLLM("then").log_probabilities(prompts_of("a"), [["x", "z"]])
        assert cached.log_probabilities(prompts_of("a"), [["x", "z"]]) == scores
        assert llm.asked == [1, 1]
        cached.generate(prompts_of("c"))
        assert llm.asked == [1, 1, 1]  # nothing was stored
    assert {file: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")} == before
    writer.close()


def test_a_cache_that_can_be_neither_written_nor_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"this is no database " * 100)
    for file in (path, tmp_path / "absent.sqlite"):
        with pytest.raises(InputError, match=rf"generation cache .*{file.name}: .*cannot be written either"):
            CachedLLM(EchoLLM(), file, read_only=True)


def test_a_file_of_an_earlier_version_that_cannot_be_written_has_no_scores(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    sqlite3.connect(path).execute("CREATE TABLE texts (key BLOB PRIMARY KEY, text TEXT NOT NULL)").connection.close()
    with CachedLLM(EchoLLM(), path, read_only=True) as cached:
        assert len(cached.log_probabilities(prompts_of("a"), [["x", "y"]])[0]) == 2


def test_a_run_whose_cache_cannot_be_written_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, llm = tmp_path / "cache.sqlite", EchoLLM()
    with CachedLLM(llm, path) as cached:
        cached.generate(prompts_of("ab"))
    for unwritable in (path, tmp_path):
        monkeypatch.setattr(os, "access", lambda asked, mode, unwritable=unwritable: asked != unwritable)
        with with_cache(llm, LLMConfig(), path) as model:
            model.generate(prompts_of("abc"))
    assert llm.asked == [2, 1, 1]
