"""Contrasts: the differences of two systems that an evaluation tests, named before the run, such as "m_rag - naive"."""

from __future__ import annotations

from collections.abc import Sequence

from mrag_rl.errors import InputError

DEFAULT_CONTRASTS = ("m_rag - naive", "m_rag - nearest_partition", "m_rag - m_rag_without_r")
"""What the whole method, Agent-S and Agent-R add."""


def primary_contrasts(named: Sequence[str] | None, compared: Sequence[str]) -> tuple[str, ...]:
    """The contrasts to test: the named ones or, if that is None, the default ones, between `compared` systems alone."""
    contrasts = DEFAULT_CONTRASTS if named is None else named
    return tuple(contrast for contrast in contrasts if set(contrast.split(" - ")) <= set(compared))


def check_contrasts(
    contrasts: Sequence[str],
    compared: Sequence[str],
    *,
    where: str = "evaluation.contrasts",
    otherwise: str = "change evaluation.systems",
) -> None:
    """Raises InputError if a contrast does not name two `compared` systems, or is there twice.

    where: the setting that has them. otherwise: what can be done instead of choosing another system.
    """
    for index, contrast in enumerate(contrasts):
        systems = contrast.split(" - ")
        if len(systems) != 2 or systems[0] == systems[1]:
            raise InputError(f"{where} has {contrast!r}; write two different systems, such as 'm_rag - naive'")
        for name in systems:
            if name not in compared:
                raise InputError(
                    f"{where} has {contrast!r}, but {name!r} is not compared; choose from {', '.join(compared)}, or "
                    f"{otherwise}"
                )
        if contrast in contrasts[:index]:
            raise InputError(f"{where} has {contrast!r} twice; remove one")
