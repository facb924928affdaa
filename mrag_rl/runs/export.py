"""The selector of a finished run in a folder of its own, with the run's scores on its card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult

from mrag_rl.config import Config
from mrag_rl.data.named import NAMED
from mrag_rl.errors import InputError
from mrag_rl.evaluation.tables import label, results_table
from mrag_rl.hub import model_card
from mrag_rl.io import atomic_directory, read_json, read_text
from mrag_rl.memory.sharing import export_database
from mrag_rl.models.names import hub_name
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.report_parts import refused, summary
from mrag_rl.runs.share_settings import ExportSettings
from mrag_rl.runs.trained import open_trained
from mrag_rl.selector import Selector
from mrag_rl.selector_files import CARD_FILE, copy_files

_HUB_TASKS = {
    "summarization": "summarization",
    "translation": "translation",
    "question_answering": "question-answering",
}
"""What the hub calls tasks; all others are text-generation."""


def run(settings: ExportSettings) -> str:
    """Export the selector or the memories of a run.

    Raises InputError as `export_run` and `export_database` do, and if there is something at the output.
    """
    output = Path(settings.output)
    if output.exists():
        raise InputError(f"{output}: there already; choose another folder")
    if settings.database:
        folder = RunFolder(Path(settings.run))
        with open_trained(folder) as trained:
            export_database(trained.database, output, name=f"Memories of {folder.load_config().name}")
        return f'{output}: load it with mrag_rl.memory.sharing.import_database("{output}", FOLDER)'
    output.parent.mkdir(parents=True, exist_ok=True)
    export_run(RunFolder(Path(settings.run)), output)
    return f'{output}: load it with Selector.from_pretrained("{output}")'


def export_run(run: RunFolder, output: Path) -> None:
    """Write a folder with the selector of a run and its full model card.

    Raises InputError if the run is not complete, has no selector, or its files are not those of a run; OSError if there
    is a folder already.
    """
    config, path = run.load_config(), run.root / "results.json"
    if not path.is_file():
        raise InputError(f"{run.root}: no results.json in it; finish the run with train.py --resume")
    if not run.selector.is_dir():
        raise InputError(f"{run.root}: no selector in it: train a run with several partitions")
    selector, results = Selector.load(run.selector), read_json(path)
    with refused(f"{path}: not the results of a run; evaluate it again"):
        text = f"{_own_card(run)}\n{_trained_on(config, selector, results)}\n{_scores(config, results)}"
        scores = list(_eval_results(config, results))
    card = model_card(text, selector.info, name=config.name, results=scores)
    with atomic_directory(output, replace=False) as target:
        copy_files(run.selector, target)
        (target / CARD_FILE).write_text(card, encoding="utf-8")


def _own_card(run: RunFolder) -> str:
    path = run.selector / CARD_FILE
    return read_text(path) if path.is_file() else ""


def _trained_on(config: Config, selector: Selector, results: Mapping[str, Any]) -> str:
    facts = {
        "Task": config.task,
        "Metric of the reward": label(target_metric(config)),
        "Pairs": _data(config)[1],
        "Partitions": f"{selector.partitions}, by {config.partitioning.method}",
        "Language model": hub_name(config.llm.name) or Path(config.llm.name).name,
        "Seed": f"{results['seed']}; of the data {config.data.world_seed}",
        "Versions": ", ".join(f"{name} {version}" for name, version in results["versions"].items()),
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return f"## What it was trained on\n\n| | |\n|---|---|\n{rows}\n"


def _scores(config: Config, results: Mapping[str, Any]) -> str:
    metric = target_metric(config)
    return (
        f"## Scores\n\n{summary(results, metric)} The table has all systems of the run on its "
        f"{results['n']['pairs']} test pairs, with 95% intervals; `m_rag` is the selector with the memories of its "
        f"run.\n\n{results_table(results, target=metric)}\n"
    )


def _eval_results(config: Config, results: Mapping[str, Any]) -> Iterator[EvalResult]:
    """The scores of `m_rag` as the hub's `EvalResult`; none if it was not evaluated."""
    dataset_type, dataset_name = _data(config)
    for metric, score in results["systems"].get("m_rag", {}).items():
        yield EvalResult(
            task_type=_HUB_TASKS.get(config.task, "text-generation"),
            dataset_type=dataset_type,
            dataset_name=dataset_name,
            dataset_split="test",
            metric_type=metric,
            metric_name=f"{label(metric)} (0 to 100)",
            metric_value=round(float(score["value"]), 2),
        )


def _data(config: Config) -> tuple[str, str]:
    """The hub's name of the dataset or what stands for one, and a name for people; of files, without their folders."""
    data = config.data
    if data.name is not None:
        return NAMED[data.name].hub or data.name, data.name
    if data.world:
        return "synthetic", f"the bundled newsroom, {data.newsroom}"
    return "own", Path(data.pairs or data.folder or data.files.database or "").name
