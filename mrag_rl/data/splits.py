"""Splitting pairs into a database and training, development and test queries that share no event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.stored import take, texts_key
from mrag_rl.errors import InputError
from mrag_rl.extras import require

LONGEST_MATCH = 1.0
"""Seconds after which ``group`` is given up on an id."""
_SHOWN = 100  # characters of that id


@dataclass(frozen=True)
class Splits:
    """The memories, and the queries for training the agents, choosing a checkpoint, and the final evaluation.

    Attributes:
        too_long, copies: how many pairs were left out before (`mrag_rl.data.cleaning`).
    """

    database: Sequence[TextPair]
    train: Sequence[TextPair]
    dev: Sequence[TextPair]
    test: Sequence[TextPair]
    too_long: int = 0
    copies: int = 0

    def known_sources(self) -> int:
        """The number of training, development and test queries whose source is also the source of a memory."""
        queries = Counter(_source_key(pair) for part in (self.train, self.dev, self.test) for pair in part)
        return sum(queries[source] for source in set(map(_source_key, self.database)))

    def trained_sources(self) -> int:
        """The number of test queries whose source is also the source of a training query."""
        trained = set(map(_source_key, self.train))
        return sum(_source_key(pair) in trained for pair in self.test)


def split_pairs(
    pairs: Sequence[TextPair],
    *,
    train: float = 0.1,
    dev: float = 0.1,
    test: float = 0.1,
    group: str | None = None,
    seed: int,
) -> Splits:
    """Split ``pairs`` at random; the rest after the three fractions is the database.

    ``group`` is a regular expression searched for in each id; its first group (or the whole match) names the event or
    dialogue. Pairs of the same name are never in different parts, nor are groups that have a pair in common, source and
    target: it may be the same dialogue twice. So the fractions are exact for groups and approximate for pairs. Each
    part keeps the order of ``pairs``. The same pairs, arguments and seed give the same split.

    Raises InputError for a fraction outside (0, 1), fractions that leave no database, a broken or unmatched ``group``,
    and a part that would be empty.
    """
    fractions = {"test": test, "dev": dev, "train": train}
    for name, fraction in fractions.items():
        if not 0 < fraction < 1:
            raise InputError(f"split fraction {name}={fraction} is outside (0, 1); give a share such as 0.1")
    if sum(fractions.values()) >= 1:
        raise InputError(
            f"split fractions train={train}, dev={dev}, test={test} leave no database; make them sum to less than 1"
        )
    groups = _groups(pairs, group)
    order = np.random.default_rng(seed).permutation(len(groups))
    parts: dict[str, Sequence[TextPair]] = {}
    start = 0
    for part, fraction in fractions.items():
        stop = start + max(1, round(fraction * len(groups)))
        parts[part] = _take(pairs, groups, order[start:stop])
        start = stop
    parts["database"] = _take(pairs, groups, order[start:])
    empty = [part for part, members in parts.items() if not members]
    if empty:
        groups_of = f"groups that stay together ({len(groups)}) of " if len(groups) < len(pairs) else ""
        raise InputError(
            f"{groups_of}{len(pairs)} pairs leave the split {empty[0]} empty; give more pairs or change the fractions"
        )
    return Splits(parts["database"], parts["train"], parts["dev"], parts["test"])


def split_published(
    parts: Mapping[str, Sequence[TextPair]], *, train: float, group: str | None = None, seed: int
) -> Splits:
    """Published splits: a share of the training split is what the agents train on, the rest of it the database.

    Args:
        parts: "train", "dev" and "test". train: the share, in (0, 1). group, seed: as in `split_pairs`.

    Raises:
        InputError: as `split_pairs`, and `check_parts` for what two splits have in common.
    """
    check_parts(parts, {part: f"the published split {part}" for part in parts}, group)
    pairs = parts["train"]
    groups = _groups(pairs, group)
    if len(groups) < 2:
        raise InputError("the published split train has fewer than 2 pairs or groups; give more pairs")
    order = np.random.default_rng(seed).permutation(len(groups))
    count = min(max(1, round(train * len(groups))), len(groups) - 1)
    return Splits(
        database=_take(pairs, groups, order[count:]),
        train=_take(pairs, groups, order[:count]),
        dev=parts["dev"],
        test=parts["test"],
    )


def check_parts(parts: Mapping[str, Sequence[TextPair]], names: Mapping[str, str], group: str | None) -> None:
    """Check that splits have nothing in common. names: of the splits, by part, as errors give them.

    Raises InputError for an id in two splits, a pair in two splits, source and target, under two ids, and an event or
    dialogue in two splits, as ``group`` names it; see `split_pairs`.
    """
    owner: dict[str | bytes, tuple[str, str]] = {}  # Of an id, and of both texts: the part, and the id there
    for part, pairs in parts.items():
        there: dict[str | bytes, tuple[str, str]] = {}
        for pair in pairs:
            for key in (pair.id, texts_key(pair.source, pair.target)):
                there[key] = part, pair.id
                if key in owner:
                    other, twin = owner[key]
                    problem, mend = f'id "{pair.id}" is also', ""
                    if twin != pair.id:
                        problem = f'pair "{pair.id}" has the source and target of "{twin}"'
                        mend = " (--data.deduplicate does)"
                    raise InputError(
                        f"{names[part]}: {problem} in {names[other]}; keep each pair in one split only{mend}"
                    )
        owner |= there
    if group is not None:
        _check_groups({names[part]: pairs for part, pairs in parts.items()}, group)


def _check_groups(files: dict[str, Sequence[TextPair]], group: str) -> None:
    """Raises InputError if a group has pairs in two files."""
    owner: dict[str, str] = {}
    for path, pairs in files.items():
        names = group_names(pairs, group)
        for pair, name in zip(pairs, names, strict=True):
            if name in owner:
                raise InputError(
                    f'{path}: id "{pair.id}" is of group "{name}", which {owner[name]} has, too; keep each group in '
                    "one split only"
                )
        owner |= dict.fromkeys(names, path)


def group_names(pairs: Sequence[TextPair], group: str | None) -> list[str]:
    """The event or dialogue of each pair, by the regular expression ``group`` on its id; without one, the id itself.

    Raises InputError for a broken or unmatched ``group``, and for one that takes longer than `LONGEST_MATCH` seconds on
    an id, as expressions with repetitions inside repetitions can.
    """
    name = _naming(group)
    return [name(pair.id) for pair in pairs]


def _naming(group: str | None) -> Callable[[str], str]:
    """From an id to the name of its event or dialogue; it raises InputError for an id that ``group`` does not match.

    Raises InputError for a broken ``group``.
    """
    if group is None:
        return str
    require("encode", "regex", by="data.group")
    import regex  # unlike re, it can be told when to give up

    try:
        pattern = regex.compile(group)
    except regex.error as error:
        raise InputError(f"group {group!r} is not a regular expression ({error}); try '^([^.]+)'") from error

    def name(identifier: str) -> str:
        try:
            match = pattern.search(identifier, timeout=LONGEST_MATCH)
        except TimeoutError as error:
            shown = identifier if len(identifier) <= _SHOWN else f"{identifier[:_SHOWN]}..."
            raise InputError(
                f"group {group!r} takes longer than {LONGEST_MATCH:g} s on the id {shown!r}; write it without a "
                "repetition inside another, such as '^([^.]+)'"
            ) from error
        if match is None:
            raise InputError(f"group {group!r} does not match the id {identifier!r}; make it match every id")
        found: str | None = match.group(1) if pattern.groups else match.group(0)
        # An optional first group need not take part in the match.
        if found is None:
            raise InputError(
                f"group {group!r} matches the id {identifier!r} without its first group; write a group that always "
                "matches"
            )
        return found

    return name


def pair_groups(pairs: Sequence[TextPair], group: str) -> list[str]:
    """The event or dialogue of each pair, (N,), as `split_pairs` keeps them together.

    Groups that have a pair in common, source and target, are one, named like the first of them.
    Raises InputError for a broken or unmatched ``group``.
    """
    names = group_names(pairs, group)
    joined = list(names)
    for members in _groups(pairs, group):
        for index in members:
            joined[index] = names[members[0]]
    return joined


def _groups(pairs: Sequence[TextPair], group: str | None) -> list[list[int]]:
    """The indices of the pairs of each group, by first appearance; groups that have a pair in common are one.

    Raises InputError as `group_names` does.
    """
    name = _naming(group)
    first: dict[str | bytes, int] = {}  # Where a name or a pair of texts appeared first
    parent = list(range(len(pairs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    for index, pair in enumerate(pairs):
        for key in (name(pair.id), texts_key(pair.source, pair.target)):
            one, other = sorted((root(index), root(first.setdefault(key, index))))
            parent[other] = one
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())


def _source_key(pair: TextPair) -> bytes:
    return texts_key(pair.source, "")


def _take(pairs: Sequence[TextPair], groups: list[list[int]], numbers: np.ndarray) -> Sequence[TextPair]:
    """The pairs of some groups, in their original order."""
    return take(pairs, sorted(index for number in numbers for index in groups[number]))
