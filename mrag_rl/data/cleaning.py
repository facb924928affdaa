"""What is left out before pairs are split, or of splits: long texts, and copies."""

from __future__ import annotations

from collections.abc import Mapping

from mrag_rl.data.records import TextPair

_KEPT_FIRST = ("test", "dev", "train", "database")


def without_long(
    parts: Mapping[str, list[TextPair]], *, source: int | None, target: int | None
) -> dict[str, list[TextPair]]:
    """The pairs of each part whose source and target have at most so many words, parted by white space; None: any."""

    def fits(text: str, limit: int | None) -> bool:
        return limit is None or len(text.split()) <= limit

    return {
        part: [pair for pair in pairs if fits(pair.source, source) and fits(pair.target, target)]
        for part, pairs in parts.items()
    }


def without_copies(parts: Mapping[str, list[TextPair]]) -> dict[str, list[TextPair]]:
    """The parts without pairs whose source and target another pair has, apart from white space.

    The first one is kept. Of copies in several parts, that in the test split is kept, else in the development split,
    else among the training queries: published queries stay what they are, and no memory gives their answers away.
    """
    seen: set[tuple[str, str]] = set()
    kept: dict[str, list[TextPair]] = {}
    for part in sorted(parts, key=lambda part: _KEPT_FIRST.index(part) if part in _KEPT_FIRST else len(_KEPT_FIRST)):
        kept[part] = []
        for pair in parts[part]:
            key = (" ".join(pair.source.split()), " ".join(pair.target.split()))
            if key not in seen:
                seen.add(key)
                kept[part].append(pair)
    return {part: kept[part] for part in parts}
