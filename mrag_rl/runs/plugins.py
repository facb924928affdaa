"""The plug-ins of a run: which settings may name code, who decides that it is imported, and what is checked then."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mrag_rl.command_line import option_values
from mrag_rl.config import Config, check_files_of_plugins
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import check_task
from mrag_rl.metrics.text import check_metric
from mrag_rl.partitioning.own import check_partitioner
from mrag_rl.plugins import Plugin, load_plugin, loaded_plugin


def _check_encoder(plugin: Plugin) -> None:
    from mrag_rl.encoders.own import check_own_encoder  # here, because PyTorch takes seconds to import

    check_own_encoder(plugin)


def _check_llm(plugin: Plugin) -> None:
    from mrag_rl.generation.own import check_llm  # here for the same reason

    check_llm(plugin)


def _check_network(plugin: Plugin) -> None:
    from mrag_rl.models.q_networks import check_q_network  # here for the same reason

    check_q_network(plugin)


_CHECKS = {
    "task": check_task,
    "metric": check_metric,
    "partitioning.method": check_partitioner,
    "encoder.name": _check_encoder,
    "llm.name": _check_llm,
    "agent_s.network": _check_network,
    "agent_r.network": _check_network,
}
SETTINGS = tuple(_CHECKS)
"""The settings that may name code."""
TO_ANSWER = ("task", "encoder.name", "llm.name")
"""Those whose code is needed to answer a text with a finished run."""


def load_own_plugins(config: Config, arguments: Sequence[str] = ()) -> None:
    """Import the plug-ins of the user's own configuration and check them.

    arguments: the command line that it comes from. A file of settings in it that lies in a run folder may be somebody
    else's, and imports nothing.

    Raises InputError for a plug-in that cannot be imported, or is not what the setting needs.
    """
    check_files_of_plugins(config, option_values(arguments, "--config"))
    _load(config.plugins)


def load_trusted_plugins(config: Config, trusted: Collection[str], settings: Collection[str], where: object) -> None:
    """Import the plug-ins that a run's configuration names in `settings`, if the user named every one of them.

    trusted: the import paths that the user named. where: the run, for errors.

    Raises InputError, and imports nothing, if one is not in `trusted`; and as `load_own_plugins`.
    """
    named = {setting: path for setting, path in config.plugins.items() if setting in settings}
    untrusted = {setting: path for setting, path in named.items() if path not in trusted}
    if untrusted:
        options = " ".join(f"--trust {path}" for path in dict.fromkeys(named.values()))
        code = ", ".join(f"{setting}: {path}" for setting, path in untrusted.items())
        raise InputError(f"{where}: its settings name code ({code}); if you trust that code: {options}")
    _load(named)


def loaded_plugins(config: Config, settings: Collection[str] = SETTINGS) -> dict[str, Plugin]:
    """The plug-ins that a configuration names in these settings, by setting. Raises InputError if one is not loaded."""
    return {setting: loaded_plugin(path) for setting, path in config.plugins.items() if setting in settings}


def _load(named: dict[str, str]) -> None:
    for setting, path in named.items():
        _CHECKS[setting](load_plugin(path))
