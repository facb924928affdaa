"""`train.py tune`: a search for the settings with the best development score, each trial by several trainings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import yaml
from tqdm import tqdm

from mrag_rl.command_line import SettingsReader
from mrag_rl.config import Config, config_sha256, validate_config, with_settings
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Interval, as_json
from mrag_rl.evaluation.comparison_tables import setting_text
from mrag_rl.evaluation.tuning_report import plot_trials, tuning_page
from mrag_rl.io import atomic_write_text, read_json, read_jsonl, write_json
from mrag_rl.runs.estimate import cautions_of, estimate
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.plugins import load_own_plugins
from mrag_rl.runs.pool import flat_settings
from mrag_rl.runs.processes import Jobs, carry_out, how_texts_are_shared, is_done, with_shared
from mrag_rl.runs.search import Space, importances, propose, read_space
from mrag_rl.runs.settings import TuneSettings, check_data_files
from mrag_rl.settings import check_bounds

FEWEST_FRESH = 3
"""Seeds, at least, on which the best trial is compared with the unchanged settings."""


@dataclass(frozen=True)
class Tuning:
    """What a search will do.

    Attributes:
        folder: runs/NAME, with a run folder for each trial and seed.
        base: the unchanged settings, those of trial 0; `seed` is that of the search.
        trials: how many there will be. seeds: of each trial's trainings. jobs: how they are carried out.
    """

    folder: Path
    base: Config
    space: Space
    trials: int
    seeds: tuple[int, ...]
    jobs: Jobs

    @property
    def fresh(self) -> tuple[int, ...]:
        """The seeds of the comparison, which the search does not see."""
        first = max(self.seeds) + 1
        return tuple(range(first, first + max(FEWEST_FRESH, len(self.seeds))))

    @property
    def file(self) -> Path:
        """The settings of the trials so far: {"search": what they depend on, "trials": [settings]}."""
        return self.folder / "trials.json"

    def proposed(self) -> list[dict[str, Any]]:
        """The settings of the trials so far. Raises InputError if they are another search's."""
        if not self.file.is_file():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                raise InputError(
                    f"{self.folder}: exists already, and is no search; choose another --name, or remove it"
                )
            return []
        found = read_json(self.file)
        if found["search"] != self._search():
            raise InputError(
                f"{self.folder}: a search with another space, other seeds or settings; remove it, or choose another "
                "--name"
            )
        trials: list[dict[str, Any]] = found["trials"]
        return trials

    def propose(self, trials: Sequence[Mapping[str, Any]]) -> None:
        """Write down the settings of the trials so far."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.file, {"search": self._search(), "trials": list(trials)})

    def unchanged(self) -> dict[str, Any]:
        """The settings of trial 0."""
        settings = flat_settings(self.base)
        return {name: settings[name] for name in self.space}

    def runs(self, trial: int, settings: Mapping[str, Any], seeds: Sequence[int]) -> dict[Path, Config]:
        """The configurations of a trial's runs, one for each seed. Raises InputError if they are not valid."""
        # No ablations, which would be trainings of their own; nor the contrasts that name them.
        evaluation = replace(self.base.evaluation, ablations=False, contrasts=None)
        changed = with_shared(replace(with_settings(self.base, settings), evaluation=evaluation), self.folder)
        names = {seed: f"trial-{trial}_seed-{seed}" for seed in seeds}
        runs = {self.folder / name: replace(changed, name=name, seed=seed) for seed, name in names.items()}
        for config in runs.values():
            validate_config(config)
        return runs

    def plan(self) -> str:
        """What the search is, in words."""
        texts = how_texts_are_shared(with_shared(self.base, self.folder))
        most = self.trials * len(self.seeds) + 2 * len(self.fresh)
        seconds = [
            _seconds(run.parent) for run in self.folder.glob("*/run.json") if trained_score(run.parent) is not None
        ]
        # A run of trial 0 stands for all; without its ablations, as in `runs`
        one_run = replace(self.base, evaluation=replace(self.base.evaluation, ablations=False))
        seeds, jobs = ", ".join(map(str, self.seeds)), min(self.jobs.number, len(self.seeds))
        lines = [
            f"{self.folder}: {self.trials} trials (seeds: {seeds}), {len(self.proposed())} begun, and "
            f"{2 * len(self.fresh)} trainings to compare the best one on other seeds: at most {most} trainings, "
            f"{len(seconds)} complete; {jobs} at a time; {texts}",
            estimate([one_run] * max(0, most - len(seconds)), seconds, jobs, evaluated=False),
        ]
        unchanged = self.unchanged()
        lines += [f"  {name}: {part} (unchanged: {setting_text(unchanged[name])})" for name, part in self.space.items()]
        return "\n".join([*lines, *cautions_of([self.base], evaluated=False)])

    def _search(self) -> dict[str, Any]:
        space = {name: asdict(part) for name, part in self.space.items()}
        search = {"config_sha256": config_sha256(self.base), "seeds": self.seeds, "space": space}
        found: dict[str, Any] = json.loads(json.dumps(search))  # as the file has it, without tuples
        return found


def plan_tuning(arguments: Sequence[str], *, program: str = "train.py tune") -> tuple[Tuning, TuneSettings]:
    """The search that a command line asks for; nothing is written.

    Raises InputError if a setting or the space is not valid, or the folder has something else in it.
    """
    settings, _ = SettingsReader(TuneSettings, program, example="configs/quickstart.yaml").read(arguments)
    check_bounds(settings)
    base = settings.run_config()
    validate_config(base)
    check_data_files(base.data)
    load_own_plugins(base, arguments)
    if not settings.seeds or len(set(settings.seeds)) < len(settings.seeds) or min(settings.seeds) < 0:
        raise InputError(f"seeds is {list(settings.seeds)}; give one or more different whole numbers from 0 on")
    space = read_space(Path(settings.space), base)
    jobs = Jobs.of(settings)
    jobs.check([base])
    tuning = Tuning(settings.folder, base, space, settings.trials, settings.seeds, jobs)
    tuning.proposed()
    return tuning, settings


def run_tuning(tuning: Tuning, *, progress: bool = True) -> str:
    """Carry out what is left of a search; writes its results to its folder, returns the page.

    A trial is its settings, written down before it begins, and the scores of its runs, which resume from any stop; the
    next settings are a function of these. So a search that was stopped, however, ends as one that was not.

    A later trial whose runs fail has no score, and the search goes on. Raises InputError if one of trial 0 or of the
    last comparison fails. The same search again goes on where each run was left.
    """
    proposed = tuning.proposed()
    tried: list[dict[str, Any]] = []
    with tqdm(total=tuning.trials * len(tuning.seeds), unit="training", disable=not progress) as bar:
        for trial in range(tuning.trials):
            if trial == len(proposed):
                scores = [(one["settings"], one.get("mean")) for one in tried]
                new = propose(tuning.space, scores, tuning.base.seed) if trial else tuning.unchanged()
                proposed.append(new)
                tuning.propose(proposed)
            tried.append(_tried(tuning, trial, proposed[: trial + 1], bar))
        best = max((one for one in tried if "mean" in one), key=lambda one: (one["mean"], -one["trial"]))
        fresh = None
        if best["mean"] > tried[0]["mean"]:
            bar.total += 2 * len(tuning.fresh)
            fresh = _compared(tuning, best, bar)
    spent = [_seconds(run.parent) for run in tuning.folder.glob("*/run.json")]
    report = {
        "metric": target_metric(tuning.base),
        "seeds": list(tuning.seeds),
        "space": {name: asdict(part) for name, part in tuning.space.items()},
        "trials": tried,
        "best": best["trial"],
        "lead": round(best["mean"] - tried[0]["mean"], 4),
        "fresh": fresh,
        "importance": importances(tuning.space, [(one["settings"], one.get("mean")) for one in tried]),
        "seconds": round(sum(spent), 3),
    }
    page = tuning_page(report)
    plot_trials(tuning.folder, "trials_plot", report)
    atomic_write_text(tuning.folder / "best.yaml", _nested_yaml(best["settings"]))
    atomic_write_text(tuning.folder / "results.md", page)
    write_json(tuning.folder / "results.json", report)
    return page


def trained_score(run: Path) -> float | None:
    """The development score (0-100) of a run's best round, by which training keeps it; None while it is trained."""
    if not is_done(run, "training"):
        return None
    rounds = [record for _, record in read_jsonl(RunFolder(run).log) if record["kind"] == "round"]
    return max(float(record[name]) for record in rounds for name in ("dev", "dev_start") if name in record)


def _tried(tuning: Tuning, trial: int, proposed: Sequence[Mapping[str, Any]], bar: tqdm[Any]) -> dict[str, Any]:
    """Carry out the last of the proposed trials; returns it as results.json has it."""
    settings = proposed[trial]
    first = [*proposed].index(settings)
    found = {"trial": trial, "settings": settings} | ({} if first == trial else {"same_as": first})
    try:
        runs = tuning.runs(first, settings, tuning.seeds)
    except InputError as error:
        bar.update(len(tuning.seeds))
        return found | {"error": str(error)}
    try:
        scores = _scores(tuning, runs, bar)
    except InputError as error:
        if trial == 0:
            raise  # Nothing to compare with
        return found | {"error": str(error)}
    spread = {"spread": round(float(np.std(scores, ddof=1)), 4)} if len(scores) > 1 else {}
    return found | {"scores": scores, "mean": round(float(np.mean(scores)), 4)} | spread


def _compared(tuning: Tuning, best: Mapping[str, Any], bar: tqdm[Any]) -> dict[str, Any]:
    """The best trial and trial 0 on the seeds that the search has not seen, paired by seed."""
    trials = {0: tuning.unchanged(), best.get("same_as", best["trial"]): best["settings"]}
    runs = {run: config for trial in trials.items() for run, config in tuning.runs(*trial, tuning.fresh).items()}
    found, n = _scores(tuning, runs, bar), len(tuning.fresh)
    scores = {"seeds": list(tuning.fresh), "unchanged": found[:n], "best": found[n:]}
    differences = np.array(found[n:]) - np.array(found[:n])
    return scores | as_json(_t_interval(differences), value_name="difference")


def _scores(tuning: Tuning, runs: Mapping[Path, Config], bar: tqdm[Any]) -> list[float]:
    """The development scores of runs, which are trained first unless they are already."""
    left = {run: config for run, config in runs.items() if trained_score(run) is None}
    bar.update(len(runs) - len(left))
    carry_out(left, part="training", jobs=tuning.jobs, bar=bar)
    scores = [trained_score(run) for run in runs]
    return [round(score, 4) for score in scores if score is not None]


def _t_interval(values: np.ndarray) -> Interval:
    """The mean of a few numbers (n,), n > 1, with the 95% interval of Student's t."""
    mean, n = float(values.mean()), len(values)
    half = float(scipy.special.stdtrit(n - 1, 0.975)) * float(values.std(ddof=1)) / n**0.5
    return Interval(mean, mean - half, mean + half)


def _seconds(run: Path) -> float:
    """What preparing and training a run have taken so far."""
    stages = read_json(RunFolder(run).state)["stages"]
    return float(sum(stages[name]["seconds"]["total"] for name in ("prepare", "train") if name in stages))


def _nested_yaml(settings: Mapping[str, Any]) -> str:
    """Settings by their dotted names as a file for ``--config``."""
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        group = nested
        *parents, key = name.split(".")
        for parent in parents:
            group = group.setdefault(parent, {})
        group[key] = value
    return str(yaml.safe_dump(nested, sort_keys=False, allow_unicode=True))
