"""The configuration: read, overridden, checked, hashed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.choices import ABLATION_OF, DEFAULT_SYSTEMS
from mrag_rl.command_line import SettingsReader
from mrag_rl.config import (
    Config,
    PartitioningConfig,
    config_sha256,
    config_to_dict,
    config_to_yaml,
    load_config,
    validate_config,
)
from mrag_rl.contrasts import DEFAULT_CONTRASTS, primary_contrasts
from mrag_rl.data_config import DataConfig
from mrag_rl.encoder_config import EncoderConfig
from mrag_rl.errors import InputError
from mrag_rl.evaluation_config import EvaluationConfig
from mrag_rl.experiments.settings import MultihopSettings
from mrag_rl.llm_config import LLMConfig
from mrag_rl.models.bundled import NEWSROOM_LLM
from mrag_rl.runs.arguments import parse_train_arguments
from mrag_rl.runs.settings import SweepSettings, TuneSettings
from mrag_rl.subcommands import EVALUATIONS
from mrag_rl.training_config import AgentConfig, RefinementConfig

FOLDER = Path(__file__).parents[1] / "configs"
CONFIGS = sorted(
    path
    for path in FOLDER.rglob("*.yaml")
    if path.name != "multihop.yaml" and path.parent.name not in ("sweeps", "tables")
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text("name: c\nagent_s:\n  learning_rate: 1e-2\n")
    return path


def test_the_file_fills_in_over_the_defaults_and_the_command_line_over_the_file(file: Path) -> None:
    config = load_config(file, ["--agent_s.hidden", "8", "--evaluation.systems", "[naive, m_rag]", "--metric=bleu"])
    assert (config.agent_s.learning_rate, config.agent_s.hidden, config.agent_r.hidden) == (0.01, 8, 25)
    assert config.evaluation.systems == ("naive", "m_rag")
    assert config.metric == "bleu"
    assert config.data.world
    assert config.llm.path == str(NEWSROOM_LLM)


def test_contrasts_are_the_named_ones_or_the_default_ones_of_the_compared_systems(file: Path) -> None:
    def contrasts(*options: str) -> tuple[str, ...]:
        config = load_config(file, options)
        return primary_contrasts(config.evaluation.contrasts, config.compared)

    assert contrasts() == DEFAULT_CONTRASTS
    assert contrasts("--evaluation.ablations", "false") == DEFAULT_CONTRASTS[:2]
    assert contrasts("--evaluation.systems", "[none, naive]") == ()
    assert contrasts("--evaluation.contrasts", "[m_rag_without_r - naive]") == ("m_rag_without_r - naive",)
    trials = "--evaluation.contrasts", "[m_rag - supervised_trials]"
    assert contrasts(*trials) == ("m_rag - supervised_trials",)
    assert contrasts(*trials, "--state", "single") == ()  # which has no ledger to learn from


def test_the_written_form_reads_back_equal(file: Path, tmp_path: Path) -> None:
    config = load_config(file, ["--evaluation.systems", "[naive]", "--state", "single", "--data.world_seed", "7"])
    (tmp_path / "again.yaml").write_text(config_to_yaml(config))
    assert load_config(tmp_path / "again.yaml") == config


def test_a_buffer_that_is_not_read_may_be_short() -> None:
    validate_config(Config("a", agent_s=AgentConfig(learning_starts=9, buffer_size=8)))


def test_the_hash_follows_every_setting_but_the_name() -> None:
    config = Config("a")
    assert config_sha256(config) == config_sha256(Config("b"))
    assert config_sha256(config) != config_sha256(Config("a", seed=1))
    deep = dataclasses.replace(config, agent_r=dataclasses.replace(config.agent_r, gamma=0.9))
    assert config_sha256(config) != config_sha256(deep)
    arms = dataclasses.replace(config, partitioning=dataclasses.replace(config.partitioning, arms=("none",)))
    assert config_sha256(config) != config_sha256(arms)
    assert config_sha256(config) != config_sha256(Config("a", demonstrations=2))


def test_a_run_may_be_finished_and_used_on_another_machine() -> None:
    moved = Config(
        "a", encoder=EncoderConfig(device="cuda", batch_tokens=9), llm=LLMConfig("m", device="cuda:1", batch_tokens=7)
    )
    assert config_sha256(moved) == config_sha256(Config("a", llm=LLMConfig("m")))
    assert config_sha256(moved) != config_sha256(Config("a", llm=LLMConfig("m", dtype="bfloat16")))


NEWER_SYSTEMS = (
    "best_partition",
    "consensus_ranks",
    "consensus_random",
    "consensus_samples",
    "m_rag_consensus",
    "selfmem_without_selector",
)
# A run's config.yaml names its systems, so those that came later do not change its hash
STORED = EvaluationConfig(systems=tuple(name for name in DEFAULT_SYSTEMS if name not in NEWER_SYSTEMS))


@pytest.mark.parametrize(
    ("config", "sha256"),
    [
        (Config("a", evaluation=STORED), "82cfa58fe6bbb24e57292bd6c33c858d1636761b1806b68bd9354fb88699ca13"),
        (
            Config("a", evaluation=STORED, llm=LLMConfig("m", server="http://x", chat=True)),
            "4358003d15daeea2af565bc3ffd4d0a0de591a9a771670fa310fd24d65a30979",
        ),
        (
            Config(
                "a",
                demonstrations=3,
                encoder=EncoderConfig(standard="trigrams"),
                partitioning=PartitioningConfig(arms=("none",), seed=1),
                data=DataConfig(spoilt=0.3),
                evaluation=STORED,
            ),
            "b295ac9c7b0d039f42bd6282a06f3d3232ea06245dc6097b26e175d2ebe9c9c5",
        ),
        (
            Config("a", evaluation=STORED, demonstrations=3, refinement=RefinementConfig(demonstrated=True)),
            "972a1540718478a3dac674b40ffb45d49558cc41e57ba1441a660fd83cb3db6a",
        ),
    ],
)
def test_stored_runs_keep_their_hash(config: Config, sha256: str) -> None:
    """If this fails, no run of an earlier version can be resumed: a new setting belongs in `_NEWER` of config.py."""
    assert config_sha256(config) == sha256


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_configurations_that_come_with_it_load(path: Path) -> None:
    if path.stem in ("few_systems", "score_table"):
        config = load_config(FOLDER / "rivals.yaml", ["--config", str(path)])
        assert config.name == "rivals" and (config.refinement.steps == 0) == (path.stem == "score_table")
        assert not set(config.compared) & set(ABLATION_OF)
        return
    if path.parent.name != "llm":
        assert load_config(path).name in (path.stem, f"paper-{path.stem}")
        return
    config = load_config(path.parents[1] / "pairs.yaml", ["--config", str(path), "--seed", "3"])
    assert (config.name, config.seed) == ("pairs", 3)
    if path.stem == "server":
        assert config.llm.server == "http://127.0.0.1:8000"
        return
    if path.stem == "gemma-3-270m":
        assert (config.llm.name, config.llm.device) == (path.stem, "cpu")
        return
    assert (config.llm.quantization, config.encoder.device) == ("nf4", "cuda")
    assert config.llm.device == ("auto" if path.stem == "mixtral-8x7b" else "cuda")


def test_help_lists_every_setting_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse_train_arguments(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out

    def keys(values: dict, prefix: str = "") -> list[str]:
        return [
            key
            for name, value in values.items()
            for key in (keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"])
        ]

    assert [key for key in keys(config_to_dict(Config("a"))) if f"--{key} " not in text] == []
    assert "Units of the hidden layer" in text


def test_pairs_of_ones_own_forgotten_are_asked_for_and_not_replaced_by_the_bundled_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--config", str(FOLDER / "pairs.yaml"), "--runs", str(tmp_path)]
    with pytest.raises(InputError, match=r"^pairs\.jsonl: no such file; check data\.pairs"):
        parse_train_arguments(given)
    for part in ("database", "train", "dev", "test"):
        (tmp_path / part).touch()
        given += [f"--data.files.{part}", str(tmp_path / part)]
    assert parse_train_arguments([*given, "--data.pairs", "null"]).config.data.files.given()


def test_a_new_run_and_a_resumed_one(file: Path, tmp_path: Path) -> None:
    new = parse_train_arguments(["--config", str(file), "--runs", str(tmp_path), "--seed", "5"])
    assert (new.config.seed, new.runs, new.resume) == (5, tmp_path, None)
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "config.yaml").write_text(config_to_yaml(new.config))
    resumed = parse_train_arguments(["--resume", str(folder)])
    assert (resumed.config, resumed.runs, resumed.resume) == (new.config, tmp_path, folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "name: c\nagent_s: {learning_rat: 1}",
            r"unknown key agent_s\.learning_rat; did you mean agent_s\.learning_rate",
        ),
        ("name: c\nslots: 3", r"unknown key slots; did you mean training\.slots"),
        ("name: c\nsede: 3", "unknown key sede; did you mean seed"),
        ("name: c\ntraining: 3", "training is a group; its settings are rounds, slots"),
        ("name: c\ntraining:", "training has no settings under it"),
        ("name: c\nseed: [", r"c\.yaml:2: not valid YAML"),
        ("- name", "not a mapping"),
        ("seed: 1", "name is missing"),
        ("name: c\nseed: x", "seed is x; it must be a whole number"),
        ("name: c\ntask: qa", "task is qa; it must be one of summarization"),
        ("name: c\npartitioning: {partitions: 0}", r"partitioning\.partitions is 0; it must be 1 or more"),
        ("name: c\npartitioning: {arms: [all]}", r"partitioning\.arms .* each item one of whole, none"),
        ("name: c\npartitioning: {arms: [none, none]}", "name each arm once"),
        ('name: c\nllm: {stop: [""]}', r"llm\.stop contains an empty string"),
        ("name: c\ndata: {languages: [German, English]}", "the bundled world is English to German"),
        ("name: c\ndata: {pairs: p, languages: [German, English]}", "the task is summarization"),
        ("name: c\ntask: translation\ndata: {pairs: p, languages: [A to B, C]}", "data.languages has 'A to B'"),
        ("name: c\ntask: translation\ndata: {pairs: p, languages: [German]}", r"data\.languages"),
        ("name: c\ndata: {newsroom: rooms}", r"data\.newsroom is rooms; it must be one of desks, sources"),
        ("name: c\ndata: {newsroom: sources, pairs: p}", "data.newsroom is set, but the pairs are your own"),
        ("name: c\ndemonstrations: 0", "demonstrations is 0; it must be 1 or more"),
        ("name: c\nrefinement: {candidates: 0}", r"refinement\.candidates is 0"),
        ("name: c\nrefinement: {temperature: .nan}", r"refinement\.temperature is nan"),
        ("name: c\nagent_s: {gamma: 2}", r"agent_s\.gamma is 2\.0; it must lie between 0 and 1"),
        ("name: c\nagent_s: {learning_rate: 0}", r"agent_s\.learning_rate is 0\.0; it must be more than 0"),
        ("name: c\nagent_r: {weight_decay: -1}", r"agent_r\.weight_decay is -1\.0; it must be 0 or more"),
        (
            "name: c\nstate: per_head\nagent_s: {learning_starts: 9, buffer_size: 8}",
            r"agent_s\.learning_starts is 9, more than the 8",
        ),
        ("name: c\nevaluation: {systems: []}", r"evaluation\.systems is empty; name one"),
        ("name: c\nevaluation: {contrasts: [m_rag]}", r"contrasts has 'm_rag'; write two different systems"),
        ("name: c\nevaluation: {contrasts: [naive - naive]}", "write two different systems, such as 'm_rag - naive'"),
        ("name: c\nevaluation: {contrasts: [m_rag - nave]}", "'nave' is not compared; choose from none, copy"),
        (
            "name: c\nevaluation: {ablations: false, contrasts: [m_rag_without_r - naive]}",
            "'m_rag_without_r' is not compared; choose from none",
        ),
        ("name: c\nevaluation: {contrasts: [m_rag - none, m_rag - none]}", "'m_rag - none' twice; remove one"),
        ("name: ../c", "cannot name a folder"),
        ("name: c\nencoder: {sha256: abc}", r"encoder\.sha256 is not a SHA-256"),
        ("name: c\ndata: {pairs: a, files: {train: b}}", "both set"),
        ("name: c\ndata: {files: {train: b}}", r"data\.files\.database is missing"),
        ("name: c\ndata: {group: x}", r"data\.group is set, but the pairs are the bundled world's"),
        ("name: c\ndata: {fractions: {train: 0.9}}", "leaves no pairs for the database"),
    ],
)
def test_a_bad_file_is_one_line_that_says_how_to_mend_it(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        load_config(tmp_path / "c.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give --config FILE"),
        (["--config"], "--config needs a value"),
        (
            ["--config", "nope.yaml"],
            "nope.yaml: no such file, .* check the path, or choose one of few_systems, llm/gemma",
        ),
        (
            ["--config", "FILE", "--agent_s.hiden", "3"],
            r"unknown option --agent_s\.hiden; did you mean --agent_s\.hidden",
        ),
        (["--config", "FILE", "--slots=3"], r"unknown option --slots; did you mean --training\.slots"),
        (["--confg", "FILE"], "did you mean --config"),
        (["--config", "FILE", "--training.slots", "1.5"], r"training\.slots is 1\.5; it must be a whole number"),
        (["--config", "FILE", "--seed"], "--seed"),
        (["--config", "FILE", "--partitioning.partitions=6"], "6, but the method category makes one for each label"),
        (["--config", "FILE", "--partitioning.method=none", "--partitioning.partitions=2"], "method none makes one;"),
        (["--config", "FILE", "seed"], "unexpected argument seed"),
        (["--config", "FILE", "--data.pairs", "nope.jsonl"], r"nope\.jsonl: no such file; check data\.pairs"),
        (["--resume", "nope"], "nope: no such run folder"),
        (["--resume", "FOLDER"], "no config.yaml in it"),
        (["--resume", "FOLDER", "--seed", "1"], "leave out --seed"),
        (["--resume", "FOLDER", "other"], "leave out other"),
    ],
)
def test_a_bad_command_line_is_one_line_that_says_how_to_mend_it(file: Path, arguments: list[str], says: str) -> None:
    arguments = [{"FILE": str(file), "FOLDER": str(file.parent)}.get(a, a) for a in arguments]
    with pytest.raises(InputError, match=says) as caught:
        parse_train_arguments(arguments)
    assert "\n" not in str(caught.value)


def read_multihop(arguments: list[str]) -> MultihopSettings:
    return SettingsReader(MultihopSettings, "evaluate.py multihop").read(arguments)[0]


def test_the_multihop_configuration_that_comes_with_it_is_the_defaults() -> None:
    config = read_multihop(["--config", str(FOLDER / "multihop.yaml")])
    expected = MultihopSettings("runs/multihop/results.json", strategies=("standard", "mrag", "late_interaction"))
    assert config == expected


def test_multihop_options_outweigh_the_file_and_may_be_written_with_dashes_and_plain_lists(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("output: a.json\nfetch: 5\nchunk_tokens: 100\nstrategies: [mrag]\nllm: bundled\n")
    config = read_multihop(
        ["--strategies", "standard", "fusion", "--chunk-tokens=64", "--config", str(file), "--prefix", "find: "]
    )
    assert config == MultihopSettings(
        "a.json", strategies=("standard", "fusion"), fetch=5, chunk_tokens=64, llm="bundled", prefix="find: "
    )
    assert read_multihop(["--output", "b.json"]) == MultihopSettings("b.json")
    one = read_multihop(["--config", str(file), "--strategies", "split", "--output", "c.json"])
    assert (one.strategies, one.output) == (("split",), "c.json")
    assert read_multihop(["--config", str(file), "--strategies", "[split, mrag]"]).strategies == (
        "split",
        "mrag",
    )
    assert read_multihop(["--config", str(file), "--strategies", "null"]).strategies is None


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ("output: o\nfetsh: 3", [], "unknown key fetsh; did you mean fetch"),
        ("output: o\nchunk-tokens: 3", [], "unknown key chunk-tokens; did you mean chunk_tokens"),
        ("output: o\nfetch: many", [], "fetch is many; it must be a whole number"),
        ("output: o\nstrategies: mrag", [], "strategies has a wrong value; it must be a list, each item text or null"),
        ("output: o\ndtype: int8", [], "dtype is int8; it must be one of float32, bfloat16"),
        ("fetch: 3", [], "output is missing"),
        ("- output", [], "not a mapping"),
        ("output: [", [], "not valid YAML"),
        ("output: o", ["--chunk-token", "3"], "unknown option --chunk-token; did you mean --chunk_tokens"),
        ("output: o", ["--fetch"], "--fetch needs a value"),
        ("output: o", ["--fetch", "x"], "fetch is x; it must be a whole number"),
        ("output: o", ["more"], "unexpected argument more"),
        ("output: o", ["--config"], "--config needs a value"),
        ("output: o", ["--config", "nope.yaml"], "nope.yaml: no such file"),
    ],
)
def test_a_bad_multihop_configuration_is_one_line(tmp_path: Path, text: str, arguments: list[str], says: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_multihop(["--config", str(tmp_path / "m.yaml"), *arguments])
    assert "\n" not in str(caught.value)


def test_multihop_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        read_multihop(["--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"--{item.name} " in text for item in dataclasses.fields(MultihopSettings))
    assert "Chunks retrieved for a question." in text


@pytest.mark.parametrize(
    "settings", [*(command.settings for command in EVALUATIONS.values()), Config, SweepSettings, TuneSettings]
)
def test_every_setting_of_every_command_is_an_option(settings: type, capsys: pytest.CaptureFixture[str]) -> None:
    reader: SettingsReader[Any] = SettingsReader(settings, "command")
    reader.print_help()
    shown = capsys.readouterr().out
    assert not [key for key in reader.keys if f"--{key} " not in shown and f"--{key}\n" not in shown]
