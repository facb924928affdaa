"""M-RAG's datasets by name, from small files of the published layouts, and folders of one's own splits."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.choices import Task
from mrag_rl.config import Config, load_config
from mrag_rl.data.columns import Columns
from mrag_rl.data.named import NAMED, load_published
from mrag_rl.data.splits import Splits
from mrag_rl.errors import InputError
from mrag_rl.runs.pool import world_of
from mrag_rl.runs.splits import pair_origins, read_splits

SPLITS = ("train", "validation", "test")
SIZES = {"train": 20, "validation": 3, "test": 4}


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package `datasets`, with a cache of the test's own."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return datasets


def config(tmp_path: Path, task: Task, *options: str) -> Config:
    (tmp_path / "c.yaml").write_text("name: c\n")
    return load_config(tmp_path / "c.yaml", ["--task", task, *options])


def read(tmp_path: Path, task: Task, *options: str) -> Splits:
    return read_splits(config(tmp_path, task, *options).data, task)


def write_parquet(hub: Any, path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    hub.Dataset.from_list(rows).to_parquet(path)


def articles(split: str) -> list[dict]:
    """Rows of XSum, whose second of the training split has no document."""
    return [
        {"document": "" if (split, n) == ("train", 1) else f"{split} article {n}\nSecond line.",
         "summary": f"{split} {n}", "id": f"{split[:2]}{n}"}
        for n in range(SIZES[split])
    ]  # fmt: skip


def check_xsum(splits: Splits) -> None:
    assert [pair.id for pair in splits.dev] == ["va0", "va1", "va2"]
    assert [pair.target for pair in splits.test] == [f"test {n}" for n in range(4)]
    assert len(splits.train) == 2 and len(splits.database) == 17  # a tenth of 19
    assert splits.test[0].source == "test article 0\nSecond line."


@pytest.mark.parametrize("layout", ["default/{}/0000.parquet", "default/xsum-{}.parquet", "{}-00000-of-00001.parquet"])
def test_xsum_in_the_layouts_that_the_hub_had(tmp_path: Path, hub: Any, layout: str) -> None:
    for split in SPLITS:
        write_parquet(hub, tmp_path / "xsum" / layout.format(split), articles(split))
    check_xsum(read(tmp_path, "summarization", "--data.name", "xsum", "--data.folder", str(tmp_path / "xsum")))


def test_xsum_as_saved_by_datasets(tmp_path: Path, hub: Any) -> None:
    hub.DatasetDict({split: hub.Dataset.from_list(articles(split)) for split in SPLITS}).save_to_disk(tmp_path / "x")
    check_xsum(read(tmp_path, "summarization", "--data.name", "xsum", "--data.folder", str(tmp_path / "x")))


def test_what_is_asked_of_the_hub(tmp_path: Path, hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no hub here: the arguments, and one line for the failure of the real function."""
    asked = []

    def load_dataset(*arguments: Any, **options: Any) -> Any:
        asked.append((arguments, options))
        return hub.DatasetDict({split: hub.Dataset.from_list(articles(split)) for split in SPLITS})

    with monkeypatch.context() as patch:
        patch.setattr(hub, "load_dataset", load_dataset)
        check_xsum(read(tmp_path, "summarization", "--data.name", "xsum"))
        check_xsum(read(tmp_path, "summarization", "--data.name", "xsum", "--data.revision", "abc"))
    assert asked == [
        (("EdinburghNLP/xsum",), {"data_dir": "default", "revision": revision})
        for revision in ("refs/convert/parquet", "abc")
    ]
    with pytest.raises(InputError, match=r"EdinburghNLP/xsum \(refs/convert/parquet\): cannot be loaded") as caught:
        read(tmp_path, "summarization", "--data.name", "xsum")
    assert "hf download --repo-type dataset EdinburghNLP/xsum --revision refs/convert/parquet" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bigpatent_is_its_copy_s_data_folder_and_has_numbers_for_ids(tmp_path: Path, hub: Any) -> None:
    for split in SPLITS:
        rows = [{"description": f"{split} patent {n}", "abstract": f"{split} {n}"} for n in range(SIZES[split])]
        for shard in (0, 1):
            path = tmp_path / "bp" / "data" / f"{split}-0000{shard}-of-00002.parquet"
            write_parquet(hub, path, rows[shard * 2 : 2 if shard == 0 else None])
    write_parquet(
        hub, tmp_path / "bp" / "mini" / "train-00000-of-00001.parquet", [{"description": "m", "abstract": "m"}]
    )
    splits = read(tmp_path, "summarization", "--data.name", "bigpatent", "--data.folder", str(tmp_path / "bp"))
    assert [(pair.id, pair.source) for pair in splits.test] == [(f"test-{n + 1}", f"test patent {n}") for n in range(4)]
    assert len(splits.train) == 2 and len(splits.database) == 18
    columns = ["--data.columns", "{target: abstract_text}"]
    with pytest.raises(InputError, match=r'no column "abstract_text" .* there are "description", "abstract"'):
        read(tmp_path, "summarization", "--data.name", "bigpatent", "--data.folder", str(tmp_path / "bp"), *columns)


def dialogues(split: str) -> list[dict]:
    return [
        {"dialog": [f"{split} {n} says {turn} . " for turn in range(2 + n % 3)], "act": [2, 1, 3, 4][: 2 + n % 3],
         "emotion": [0, 4, 0, 1][: 2 + n % 3]}
        for n in range(SIZES[split])
    ]  # fmt: skip


def test_dailydialog_s_utterances_follow_their_contexts_and_dialogues_stay_together(tmp_path: Path, hub: Any) -> None:
    for split in SPLITS:
        path = tmp_path / "dd" / "data" / f"{split}-00000-of-00001-f151c79abb2c1fd5.parquet"
        write_parquet(hub, path, dialogues(split))
    options = ["--data.name", "dailydialog", "--data.folder", str(tmp_path / "dd"), "--data.fractions.train", "0.5"]
    splits = read(tmp_path, "dialogue", *options)
    assert [(pair.id, pair.source, pair.target, pair.labels) for pair in splits.dev[:3]] == [
        ("dev-1.1", "validation 0 says 0 .", "validation 0 says 1 .", ("inform", "happiness")),
        ("dev-2.1", "validation 1 says 0 .", "validation 1 says 1 .", ("inform", "happiness")),
        ("dev-2.2", "validation 1 says 0 .\nvalidation 1 says 1 .", "validation 1 says 2 .", ("directive",)),
    ]
    groups = [{pair.id.split(".")[0] for pair in pairs} for pairs in (splits.database, splits.train)]
    assert [len(group) for group in groups] == [10, 10] and not groups[0] & groups[1]
    data = config(tmp_path, "dialogue", *options).data
    assert {origin.group for origin in pair_origins(data, splits.dev)} == {"dev-1", "dev-2", "dev-3"}
    assert splits != read(tmp_path, "dialogue", *options, "--data.world_seed", "1")


def test_a_dialogue_in_two_splits_has_to_be_left_out_of_one(tmp_path: Path, hub: Any) -> None:
    for split in SPLITS:
        rows = [*dialogues(split), {"dialog": ["Hello .", "Hi ."], "act": [1, 1], "emotion": [0, 0]}]
        write_parquet(hub, tmp_path / "dd" / "data" / f"{split}-0.parquet", rows)
    options = ["--data.name", "dailydialog", "--data.folder", str(tmp_path / "dd")]
    with pytest.raises(InputError, match=r'published split dev: pair "dev-4\.1" .* of "train-21\.1" .*deduplicate'):
        read(tmp_path, "dialogue", *options)
    splits = read(tmp_path, "dialogue", *options, "--data.deduplicate")
    where = [part for part in ("database", "train", "dev", "test") for pair in getattr(splits, part)
             if pair.source == "Hello ."]  # fmt: skip
    assert where == ["test"]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"utterances": ["a", "b"]}], 'no column "dialog"; there are utterances'),
        ([{"dialog": "a"}], 'row 1: column "dialog" is not a list of texts'),
        ([{"dialog": ["a", "b"], "act": [1]}], 'row 1: column "act" is not a list of 2 numbers'),
        ([{"dialog": ["a"]}], "no dialogue of two utterances"),
    ],
)
def test_another_layout_of_dialogues_is_said(tmp_path: Path, hub: Any, rows: list[dict], says: str) -> None:
    for split in SPLITS:
        write_parquet(hub, tmp_path / "dd" / f"{split}.parquet", rows)
    with pytest.raises(InputError) as caught:
        read(tmp_path, "dialogue", "--data.name", "dailydialog", "--data.folder", str(tmp_path / "dd"))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def write_lines(folder: Path, ending: str = "\n") -> None:
    """The layout of Cai et al. (2021): German in .src, English in .tgt, and segmented copies that are not read."""
    for part, count in (("train", 20), ("dev", 3), ("test", 4)):
        (folder / part).mkdir(parents=True)
        for side, language in (("src", "deutsch"), ("tgt", "english")):
            text = "".join(f"{language} {part} {n}\n" for n in range(count)).removesuffix("\n") + ending
            (folder / part / f"jrc.{part}.{side}").write_text(text)
            (folder / part / f"jrc.{part}.{side}.bpe").write_text("seg@@ mented\n")


@pytest.mark.parametrize("ending", ["\n", ""])
@pytest.mark.parametrize("inner", ["", "deen"])
def test_jrc_acquis_in_paired_lines_either_way(tmp_path: Path, inner: str, ending: str) -> None:
    write_lines(tmp_path / "jrc" / inner, ending)
    options = ["--data.folder", str(tmp_path / "jrc"), "--data.name"]
    one = read(tmp_path, "translation", *options, "jrc-acquis-de-en")
    assert (one.test[3].id, one.test[3].source, one.test[3].target) == ("test-4", "deutsch test 3", "english test 3")
    other = read(tmp_path, "translation", *options, "jrc-acquis-en-de")
    assert [(pair.target, pair.source) for pair in other.test] == [(pair.source, pair.target) for pair in one.test]
    assert len(one.train) == 2 and len(one.database) == 18 and len(one.dev) == 3


def test_of_large_paired_lines_little_is_in_memory(tmp_path: Path) -> None:
    write_lines(tmp_path)
    for side in ("src", "tgt"):
        (tmp_path / "train" / f"jrc.train.{side}").write_text("".join(f"{'text ' * 200}{n}\n" for n in range(5000)))
    tracemalloc.start()
    pairs = load_published("jrc-acquis-de-en", tmp_path, Columns())["train"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pairs) == 5000 and peak < 2_500_000  # of 10 MB


def test_jrc_acquis_in_selfmem_s_json_lines(tmp_path: Path) -> None:
    for part, count in (("train", 20), ("dev", 3), ("test", 4)):
        rows = [{"src": f"spanish {part} {n}", "trg": f"english {part} {n}"} for n in range(count)]
        (tmp_path / "data" / "jrc_esen").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "jrc_esen" / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--data.folder", str(tmp_path / "data"), "--data.name", "jrc-acquis-es-en"]
    splits = read(tmp_path, "translation", *options)
    assert (splits.dev[0].source, splits.dev[0].target) == ("spanish dev 0", "english dev 0")
    asked = config(tmp_path, "translation", *options)
    assert asked.data.translated == ("Spanish", "English") and "Spanish" in asked.prompt_task


@pytest.mark.parametrize("there", ["deen", "jrc_enes", "jrc_deen"])
def test_other_languages_are_not_taken_for_those_of_the_name(tmp_path: Path, there: str) -> None:
    write_lines(tmp_path / "jrc" / there)
    for folder in (tmp_path / "jrc", tmp_path / "jrc" / there):
        options = ["--data.folder", str(folder), "--data.name", "jrc-acquis-es-en"]
        message = (
            rf"no jrc_esen and no esen in it, but {there}, which is of other languages.*download Spanish to English"
        )
        with pytest.raises(InputError, match=message):
            read(tmp_path, "translation", *options)
    write_lines(tmp_path / "jrc" / "esen")
    assert read(tmp_path, "translation", "--data.folder", str(tmp_path / "jrc"), *options[2:]).database


def test_the_default_languages_are_not_those_of_a_named_translation(tmp_path: Path) -> None:
    prompts = {
        name: config(tmp_path, "translation", "--data.folder", "x", "--data.name", name).prompt_task
        for name, entry in NAMED.items()
        if entry.languages
    }
    assert len(set(prompts.values())) == 4 and prompts["jrc-acquis-en-de"] == "translation"


def test_lines_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "jrc")
    options = ["--data.folder", str(tmp_path / "jrc"), "--data.name", "jrc-acquis-de-en"]
    path = tmp_path / "jrc" / "dev" / "jrc.dev.tgt"
    path.write_text("one\n")
    with pytest.raises(InputError, match=r"jrc\.dev\.tgt: 1 lines, but .*jrc\.dev\.src has 3"):
        read(tmp_path, "translation", *options)
    path.unlink()
    with pytest.raises(InputError, match=r"not one \.src and one \.tgt file of the split dev"):
        read(tmp_path, "translation", *options)
    (tmp_path / "jrc" / "dev" / "jrc.dev.src").unlink()
    with pytest.raises(InputError, match="no split validation; there are test, train"):
        read(tmp_path, "translation", *options)


@pytest.mark.parametrize("kind", ["saved", "parquet", "csv"])
def test_a_folder_of_one_s_own_splits(tmp_path: Path, hub: Any, kind: str) -> None:
    rows = {split: [{"text": f"{split} {n}", "sum": "s"} for n in range(SIZES[split])] for split in SPLITS}
    folder = tmp_path / "own"
    if kind == "saved":
        hub.DatasetDict({split: hub.Dataset.from_list(rows[split]) for split in SPLITS}).save_to_disk(folder)
    for split in SPLITS:
        if kind == "parquet":
            write_parquet(hub, folder / f"{split}.parquet", rows[split])
        if kind == "csv":
            folder.mkdir(exist_ok=True)
            (folder / f"{split}.csv").write_text("text,sum\n" + "".join(f"{row['text']},s\n" for row in rows[split]))
    options = ["--data.folder", str(folder), "--data.columns", "{source: text, target: sum}"]
    splits = read(tmp_path, "summarization", *options)
    assert [(pair.id, pair.source) for pair in splits.dev] == [(f"dev-{n + 1}", f"validation {n}") for n in range(3)]
    # Published test splits are one world, whatever the seed
    assert world_of(config(tmp_path, "summarization", *options, "--data.world_seed", "3")) is None


def test_an_empty_row_is_left_out_by_name_only(tmp_path: Path, hub: Any) -> None:
    for split in SPLITS:
        write_parquet(hub, tmp_path / "own" / f"{split}.parquet", articles(split))
    options = ["--data.folder", str(tmp_path / "own"), "--data.columns", "{source: document, target: summary}"]
    with pytest.raises(InputError, match=r'own/train: row 2: column "document" \(source\) is empty'):
        read(tmp_path, "summarization", *options)
    with pytest.warns(UserWarning, match=r"own/train: 1 of \d+ rows have no source or no target and are left out"):
        read(tmp_path, "summarization", "--data.name", "xsum", "--data.folder", str(tmp_path / "own"))


def test_a_script_in_a_folder_is_not_run(tmp_path: Path, hub: Any) -> None:
    for split in SPLITS:
        write_parquet(hub, tmp_path / "xsum" / "default" / f"{split}.parquet", articles(split))
    for path in (tmp_path / "xsum" / "xsum.py", tmp_path / "xsum" / "default" / "default.py"):
        path.write_text(f"open({str(tmp_path / 'trapped')!r}, 'w')\n")
    check_xsum(read(tmp_path, "summarization", "--data.name", "xsum", "--data.folder", str(tmp_path / "xsum")))
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    ("task", "options", "says"),
    [
        ("summarization", ["--data.name", "xsun"], "data.name has a wrong value; it must be one of xsum, bigpatent"),
        ("dialogue", ["--data.name", "xsum"], "data.name is xsum, but task is dialogue; set task: summarization"),
        ("translation", ["--data.name", "jrc-acquis-de-en"], "data.folder is not set, .* not on the hub; download it"),
        ("summarization", ["--data.name", "xsum", "--data.pairs", "p"], "data.pairs and data.name are both set"),
        ("summarization", ["--data.folder", "f", "--data.pairs", "p"], "data.pairs and data.folder are both set"),
        ("summarization", ["--data.folder", "f", "--data.revision", "r"], "data.revision is set, but nothing"),
        ("dialogue", ["--data.name", "dailydialog", "--data.columns.source", "x"], "data.columns is set, but dailyd"),
        ("summarization", ["--data.columns.source", "x"], "data.columns is set, but the pairs are the bundled"),
        ("summarization", ["--data.deduplicate"], "data.deduplicate, .* the pairs are the bundled world's"),
        ("translation",
         ["--data.name", "jrc-acquis-de-en", "--data.folder", "f", "--data.languages", "French", "English"],
         "data.languages is set, but the languages of jrc-acquis-de-en are known"),
        ("summarization", ["--data.columns", "{sorce: x}", "--data.pairs", "p"], "sorce"),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together_are_said(tmp_path: Path, task: Task, options: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        config(tmp_path, task, *options)
    assert "\n" not in str(caught.value)


def test_a_file_of_both_languages_has_no_splits(tmp_path: Path) -> None:
    (tmp_path / "de-en.tmx").write_text("<tmx/>")
    options = ["--data.name", "jrc-acquis-de-en", "--data.folder", str(tmp_path / "de-en.tmx")]
    with pytest.raises(InputError, match=r"de-en\.tmx: no such folder; give one file without splits to data\.pairs"):
        read(tmp_path, "translation", *options)
