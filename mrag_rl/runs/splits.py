"""The pairs of a run, read or made as its configuration says, and split into memories and queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace

from mrag_rl.data import Splits, TextPair, split_pairs
from mrag_rl.data.cleaning import without_copies, without_long
from mrag_rl.data.named import load_published
from mrag_rl.data.splits import check_parts, pair_groups, split_published
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.data.tables import read_pairs
from mrag_rl.data_config import DataConfig
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Origin


def read_splits(data: DataConfig, task: str) -> Splits:
    """The memories and queries. Raises InputError naming the file and line at fault."""
    if data.world:
        return make_newsroom(task, seed=data.world_seed, newsroom=data.newsroom, **asdict(data.sizes))
    seed = data.world_seed
    if data.pairs is not None:
        kept, left_out = _cleaned({"database": read_pairs(data.pairs, data.columns)}, data)
        splits = split_pairs(kept["database"], **asdict(data.fractions), group=data.group, seed=seed)
    elif data.published:
        kept, left_out = _cleaned(load_published(data.name, data.folder, data.columns, revision=data.revision), data)
        splits = split_published(kept, train=data.fractions.train, group=data.grouped_by, seed=seed)
    else:
        paths = asdict(data.files)
        files = {part: read_pairs(path, data.columns, prefix=f"{part}-") for part, path in paths.items()}
        kept, left_out = _cleaned(files, data)
        check_parts(kept, paths, data.group)
        splits = Splits(kept["database"], kept["train"], kept["dev"], kept["test"])
    too_long, copies = left_out
    return replace(splits, too_long=too_long, copies=copies)


def _cleaned(
    parts: Mapping[str, Sequence[TextPair]], data: DataConfig
) -> tuple[dict[str, Sequence[TextPair]], tuple[int, int]]:
    """The pairs that the settings leave, and how many were too long, and copies. Raises InputError for none."""
    kept = without_long(parts, source=data.max_source_words, target=data.max_target_words)
    for part, pairs in kept.items():
        if not pairs:
            raise InputError(
                f"data.max_source_words and data.max_target_words leave no pair of {len(parts[part])}; raise them"
            )
    fit = kept
    if data.deduplicate:
        kept = without_copies(fit)
        for part, pairs in kept.items():
            if not pairs:
                raise InputError(f"data.deduplicate leaves no pair of the split {part}; all are copies: give others")
    given, fitting, left = (sum(map(len, pairs.values())) for pairs in (parts, fit, kept))
    return kept, (given - fitting, fitting - left)


def pair_origins(
    data: DataConfig, pairs: Sequence[TextPair], *, world: Hashable = 0, run: Hashable = 0
) -> list[Origin]:
    """Where one run's answers to N queries come from, (N,); with `data.group`, pairs of one group are drawn together.

    pairs: queries of one split. Groups that are joined by a pair in common are in one split, so no others are needed.
    Raises InputError if `data.group` does not match an id.
    """
    groups = [None] * len(pairs) if data.grouped_by is None else pair_groups(pairs, data.grouped_by)
    return [Origin(world, run, (pair.id, pair.target), group) for pair, group in zip(pairs, groups, strict=True)]
