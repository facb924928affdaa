"""Several finished runs as one table, such as one configuration under several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrag_rl.cautions import is_out_of_its_world
from mrag_rl.config import NO_RESULT, PLACEMENT, Config, config_to_dict
from mrag_rl.contrasts import check_contrasts, primary_contrasts
from mrag_rl.data import load_pairs
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Origin, origin_counts, score_systems
from mrag_rl.evaluation.results import SECONDS, USAGE, results
from mrag_rl.evaluation.run_plots import headline, learning_curves
from mrag_rl.evaluation.statistics import STATISTICS, PairStatistics, join_statistics
from mrag_rl.evaluation.tables import results_page, what_intervals_count
from mrag_rl.io import atomic_write_text, read_json, read_jsonl, write_json
from mrag_rl.report import Fact, Picture, Report, render
from mrag_rl.runs.evaluate import reported_metrics, target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.report_parts import REPORT, measured, refused, results_tables, settings_with_defaults, summary
from mrag_rl.runs.settings import PoolSettings
from mrag_rl.runs.splits import pair_origins
from mrag_rl.settings import check_bounds

MAY_DIFFER = ("name", "seed", "data.world_seed")


def run(settings: PoolSettings) -> str:
    """Score the answers of several runs together; returns the page.

    Writes results.json, results.md, report.html and its figures to `output`.

    Of each run it reads `config.yaml`, `results.json` and `statistics.npz`, and the learning curves in `log.jsonl`, if
    all runs have one.

    The bootstrap resamples worlds (`data.world_seed`), in each world its runs, and its test pairs: all runs of a world
    answer the same pairs, so a drawn pair counts for each of them. With `data.group`, whole groups of pairs are drawn
    in their place. Test sets in `data.files` and published ones are the same whatever the world's seed, and count as
    one world. Splits of one `data.pairs` count as separate worlds, although their test sets overlap a little.

    Raises:
        InputError: a run is not complete, is given twice, or its settings differ in more than name, seed and
            data.world_seed; a contrast names a system that the runs do not have.
    """
    check_bounds(settings)
    output = Path(settings.output)
    loaded = load_runs([Path(folder) for folder in settings.runs])
    runs, configs = [*loaded], [*loaded.values()]
    for folder, config in loaded.items():
        _check_settings(folder, config, runs[0], configs[0])
    parts: list[PairStatistics] = []
    origins: list[Origin] = []
    cost: dict[str, dict[str, float]] = {"seconds": dict.fromkeys(SECONDS, 0.0), "llm": dict.fromkeys(USAGE, 0)}
    for run, (folder, config) in enumerate(loaded.items()):
        parts.append(run_statistics(folder, config))
        origins += parts[-1].origins(world_of(config), run)
        report = read_json(folder / "results.json")
        for part, totals in cost.items():
            for name in totals:
                totals[name] += report[part][name]
    first = configs[0]
    joined = join_statistics(parts)
    if any(target_metric(first) not in row for row in joined.values()):
        raise InputError(f"{runs[0]}: its metric {target_metric(first)} was not measured; restore it from a copy")
    if settings.contrasts is not None:
        check_contrasts(settings.contrasts, list(joined), where="contrasts", otherwise="pool runs that have it")
    resamples = settings.bootstrap or first.evaluation.bootstrap
    scores = score_systems(joined, origins=origins, resamples=resamples, seed=first.seed)
    named = first.evaluation.contrasts if settings.contrasts is None else settings.contrasts
    pooled = results(
        task=first.task,
        test_size=len(origins),
        n=origin_counts(origins),
        seed=first.seed,
        config_sha256=read_json(runs[0] / "results.json")["config_sha256"],
        target=target_metric(first),
        contrasts=primary_contrasts(named, list(scores)),
        family=len(settings.contrasts or primary_contrasts(named, first.compared)),
        scores=scores,
        seconds=cost["seconds"],
        llm={name: int(value) for name, value in cost["llm"].items()},
        out_of_its_world=any(map(is_out_of_its_world, configs)),
        contrasts_of_command=settings.contrasts is not None,
        runs=[{"name": config.name, "seed": config.seed, "world_seed": config.data.world_seed} for config in configs],
    )
    page = results_page(pooled, target=target_metric(first))
    output.mkdir(parents=True, exist_ok=True)
    _write_report(output, loaded, pooled)
    atomic_write_text(output / "results.md", page)
    write_json(output / "results.json", pooled)
    return page


def _write_report(output: Path, runs: Mapping[Path, Config], pooled: Mapping[str, Any]) -> None:
    """Write the figures of pooled runs and their report.html."""
    config = next(iter(runs.values()))
    target = target_metric(config)
    charts = {"headline": headline(pooled, target=target)}
    logs = [RunFolder(folder).log for folder in runs]
    if all(log.is_file() for log in logs):
        records = [[record for _, record in read_jsonl(log)] for log in logs]
        with refused(f"{output}: the log.jsonl of a run is not one; restore it, or remove it to do without"):
            charts["learning_curves"] = learning_curves(records, metric=target, reward=config.reward)
    for name, chart in charts.items():
        chart.save(output, name)
    report = Report(
        title=f"{config.task.capitalize()}: {len(runs)} runs pooled",
        summary=summary(pooled, target),
        facts=[Fact(run.name, f"seed {run.seed}, world {run.data.world_seed}") for run in runs.values()],
        settings=settings_with_defaults(flat_settings(config), flat_settings(Config(config.name))),
        tables=results_tables(pooled, measured(pooled, target)),
        notes=what_intervals_count(pooled["n"], "test pairs"),
        pictures=[Picture(name, chart) for name, chart in charts.items()],
    )
    atomic_write_text(output / REPORT, render(report))


def load_runs(folders: Sequence[Path]) -> dict[Path, Config]:
    """The configurations of runs, in order. Raises InputError for a folder that is no run, or is given twice."""
    configs: dict[Path, Config] = {}
    for folder in folders:
        if folder.resolve() in [other.resolve() for other in configs]:
            raise InputError(f"{folder}: given twice; give each run once")
        configs[folder] = RunFolder(folder).load_config()
    return configs


def world_of(config: Config) -> int | None:
    """The world of a run's test pairs, by its seed; None for those of `data.files` and of published splits, which no
    seed changes."""
    return None if config.data.files.given() or config.data.published else config.data.world_seed


def run_statistics(folder: Path, config: Config) -> PairStatistics:
    """A run's statistics; of a run of an earlier version, which has none, from its answers.

    Raises InputError if the run is not complete.
    """
    if not (folder / "results.json").exists():
        raise InputError(
            f"{folder}: the run is not complete (those of tune are trained and not evaluated); resume it with: "
            f"python train.py --resume {folder}"
        )
    if (folder / STATISTICS).exists():
        return PairStatistics.load(folder / STATISTICS)
    rows = [row for _, row in read_jsonl(folder / "answers.jsonl")]
    origins = [Origin(None, None, (row["id"], row["reference"])) for row in rows]
    if config.data.grouped_by is not None:
        origins = pair_origins(config.data, load_pairs(RunFolder(folder).pairs("test")))
    return PairStatistics.count(
        {name: [row["answers"][name]["hypothesis"] for row in rows] for name in rows[0]["answers"]},
        [row["reference"] for row in rows],
        reported_metrics(config),
        origins,
    )


def _check_settings(run: Path, config: Config, first: Path, expected: Config) -> None:
    """Raises InputError naming the first setting in which two runs differ but must not."""
    reference, settings = flat_settings(expected), flat_settings(config)
    for key in differing([reference, settings]):
        if key not in (*MAY_DIFFER, *NO_RESULT, *PLACEMENT):
            raise InputError(
                f"{run}: its {key} is {settings[key]}, but that of {first} is {reference[key]}; "
                f"pool runs that differ in {', '.join(MAY_DIFFER)} alone"
            )


def flat_settings(config: Config) -> dict[str, Any]:
    """Every setting of a configuration by its dotted name."""
    return _flat(config_to_dict(config))


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the settings in which several configurations differ."""
    return [name for name, value in settings[0].items() if any(other[name] != value for other in settings[1:])]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
