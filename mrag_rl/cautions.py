"""What makes a run's figures say less than they seem to."""

from __future__ import annotations

from collections.abc import Iterable

from mrag_rl.config import Config

FEW_QUERIES = 30
"""Fewer test pairs say little."""


def is_out_of_its_world(config: Config) -> bool:
    """Whether the bundled language model, which knows the bundled world alone, is given other pairs."""
    return config.llm.name == "bundled" and not config.data.world


def cautions(config: Config, test_pairs: int | None) -> list[str]:
    """Warnings for a run's settings. test_pairs: their number, None if that is not known yet."""
    found = []
    if is_out_of_its_world(config):
        found.append(
            "the bundled language model knows only the bundled world, so its answers to your pairs are meaningless; "
            "set llm.name, such as gemma-3-270m, or llm.server"
        )
    if test_pairs is not None and test_pairs < FEW_QUERIES:
        found.append(f"{test_pairs} test pairs say little; give {FEW_QUERIES} or more, better some hundreds")
    return found


def all_cautions(runs: Iterable[tuple[Config, int | None]]) -> list[str]:
    """The warnings for several runs, each once. runs: their settings and numbers of test pairs."""
    return [*dict.fromkeys(line for config, test_pairs in runs for line in cautions(config, test_pairs))]
