"""A space of settings and Optuna's search in it: what to try next, given what was tried."""

from __future__ import annotations

import json
import math
import typing
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.command_line import read_yaml
from mrag_rl.config import NO_RESULT, PLACEMENT, Config, argument_of, config_reader, with_settings
from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.runs.pool import flat_settings
from mrag_rl.settings import check_bounds

require("tune", "optuna", by="train.py tune")

import optuna

_OTHER_SCORES = "trials with other values of it have other development scores, which cannot be compared"
_NOT_TUNED = {
    **dict.fromkeys((*NO_RESULT, "llm.cache"), "it changes no result"),
    **dict.fromkeys(PLACEMENT, "it changes results by rounding alone"),
    "name": "it names the folder; give --name",
    "seed": "each trial has several seeds; give --seeds",
    "task": _OTHER_SCORES,
    "metric": _OTHER_SCORES,
    "data.": _OTHER_SCORES,
    **dict.fromkeys(
        ("training.rounds", "training.patience"), "the score is the best round's, so more rounds score higher by luck"
    ),
    "evaluation.": "it concerns the test queries, which no trial answers",
}
"""Settings, and groups of them, that are no part of a space, and why."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both among them. log: drawn by their logarithm. whole: whole numbers alone."""

    low: float
    high: float
    log: bool
    whole: bool

    def holds(self, value: Any) -> bool:
        """Whether a value can be drawn."""
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', logarithmic' if self.log else ''}"


@dataclass(frozen=True)
class Choices:
    """Values, of which one is chosen."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return any(_text(value) == _text(choice) for choice in self.values)

    def __str__(self) -> str:
        return ", ".join(map(_text, self.values))


Space = Mapping[str, Range | Choices]


def read_space(path: Path, base: Config) -> Space:
    """The space in a YAML file. Each value is within its bounds; together, some may still be no configuration.

    Raises InputError naming the file and the setting at fault.
    """
    found = read_yaml(path)
    if not isinstance(found, Mapping) or not found:
        raise InputError(
            f"{path}: not a space; write a line 'setting: {{low: 1, high: 8}}' or 'setting: [value, value]' for each"
        )
    hints = config_reader("train.py").keys
    space: dict[str, Range | Choices] = {}
    for name, wanted in found.items():
        if name not in hints:
            raise InputError(
                f"{path}: {name} is not a setting of a run; write its dotted name, such as agent_s.learning_rate"
            )
        for refused, reason in _NOT_TUNED.items():
            if name == refused or (refused.endswith(".") and name.startswith(refused)):
                raise InputError(f"{path}: {name} cannot be tuned: {reason}")
        try:
            space[name] = _range(name, wanted, hints[name]) if isinstance(wanted, Mapping) else _choices(name, wanted)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    for name, part in space.items():
        for value in (part.low, part.high) if isinstance(part, Range) else part.values:
            try:
                check_bounds(with_settings(base, {name: value}))
            except InputError as error:
                raise InputError(f"{path}: {error}") from error
    return space


def propose(space: Space, tried: Sequence[tuple[Mapping[str, Any], float | None]], seed: int) -> dict[str, Any]:
    """The settings to try next, by Optuna's Tree-structured Parzen Estimator (Bergstra et al., 2011).

    A function of its arguments: the search has no state but what was tried, so that it goes on after any stop as if
    there had been none.

    Args:
        tried: settings and their score, the higher the better, in order; None for settings that no run can have.
    """
    # A seed of its own for each proposal: a sampler that is made anew would begin with the same draws again.
    draws = int(np.random.SeedSequence([seed, len(tried)]).generate_state(1)[0])
    study = _study(space, tried, optuna.samplers.TPESampler(seed=draws))
    drawn = study.ask(dict(_distributions(space))).params
    return {name: drawn[name] if isinstance(part, Range) else json.loads(drawn[name]) for name, part in space.items()}


def importances(space: Space, tried: Sequence[tuple[Mapping[str, Any], float | None]]) -> dict[str, float]:
    """The share of each setting in how the scores vary, as Optuna estimates it; empty if it cannot."""
    study = _study(space, tried, None)
    inside = [trial for trial in study.get_trials(deepcopy=False) if len(trial.params) == len(space)]
    if len({trial.value for trial in inside}) < 4 or len(space) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()  # draws nothing at random
        found = optuna.importance.get_param_importances(study, evaluator=evaluator, params=[*space])
    return {name: round(float(share), 4) for name, share in found.items()}


def _study(
    space: Space, tried: Sequence[tuple[Mapping[str, Any], float | None]], sampler: optuna.samplers.BaseSampler | None
) -> optuna.Study:
    """A study, in memory, of what was tried; values outside of the space are left out."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = _distributions(space)
    for settings, score in tried:
        inside = {name: value for name, value in settings.items() if space[name].holds(value)}
        study.add_trial(
            optuna.trial.create_trial(
                params={name: v if isinstance(space[name], Range) else _text(v) for name, v in inside.items()},
                distributions={name: distributions[name] for name in inside},
                value=score,
                state=optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE,
            )
        )
    return study


def _distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    made: dict[str, optuna.distributions.BaseDistribution] = {}
    for name, part in space.items():
        if isinstance(part, Choices):  # as text, since Optuna's categories cannot be lists
            made[name] = optuna.distributions.CategoricalDistribution([_text(value) for value in part.values])
        elif part.whole:
            made[name] = optuna.distributions.IntDistribution(int(part.low), int(part.high), log=part.log)
        else:
            made[name] = optuna.distributions.FloatDistribution(part.low, part.high, log=part.log)
    return made


def _range(name: str, wanted: Mapping[Any, Any], hint: Any) -> Range:
    """A range as a file has it. Raises InputError."""
    types = typing.get_args(hint) or (hint,)
    if int not in types and float not in types:
        raise InputError(f"{name} has a range but is no number; write {name}: [value, value]")
    if not {"low", "high"} <= set(wanted) <= {"low", "high", "log"}:
        raise InputError(f"{name} needs low and high, and may have log; write {name}: {{low: 1, high: 8, log: true}}")
    whole, log = float not in types, wanted.get("log", False)
    if not isinstance(log, bool):
        raise InputError(f"{name}: log is {log}; it must be true or false")
    low, high = (_value(name, wanted[end], end) for end in ("low", "high"))
    if low is None or high is None or not math.isfinite(high - low):
        raise InputError(f"{name}: low is {low} and high is {high}; they must be finite numbers")
    if low >= high:
        raise InputError(f"{name}: low is {low}, which is not less than high, {high}")
    if log and low <= 0:
        raise InputError(f"{name}: low is {low}, and a logarithmic range begins above 0")
    return Range(low, high, log, whole)


def _choices(name: str, wanted: Any) -> Choices:
    """Choices as a file has them. Raises InputError."""
    if not isinstance(wanted, list) or len(wanted) < 2:
        raise InputError(f"{name} has no range and no two choices; write {{low: 1, high: 8}} or [value, value]")
    values = tuple(_value(name, value, "a choice") for value in wanted)
    if len(set(map(_text, values))) < len(values):
        raise InputError(f"{name} has a choice twice; remove one")
    return Choices(values)


def _value(name: str, value: Any, part: str) -> Any:
    """A value as the setting has it, in JSON's types. Raises InputError if it is of another type."""
    try:
        config, _ = config_reader("train.py").read(["--name", "space", f"--{name}={argument_of(value)}"])
    except InputError as error:
        raise InputError(f"{part} of {error}" if str(error).startswith(name) else f"{name}: {error}") from error
    return flat_settings(config)[name]


def _text(value: Any) -> str:
    return json.dumps(value)
