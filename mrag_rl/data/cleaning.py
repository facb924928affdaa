"""What is left out before pairs are split, or of splits: long texts, and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mrag_rl.data.records import TextPair
from mrag_rl.data.stored import take, texts_key

_KEPT_FIRST = ("test", "dev", "train", "database")


def without_long(
    parts: Mapping[str, Sequence[TextPair]], *, source: int | None, target: int | None
) -> dict[str, Sequence[TextPair]]:
    """The pairs of each part whose source and target have at most so many words, parted by white space; None: any."""

    def fits(pair: TextPair) -> bool:
        sides = (pair.source, source), (pair.target, target)
        return all(limit is None or len(text.split()) <= limit for text, limit in sides)

    if source is None and target is None:
        return dict(parts)
    return {
        part: take(pairs, [place for place, pair in enumerate(pairs) if fits(pair)]) for part, pairs in parts.items()
    }


def without_copies(parts: Mapping[str, Sequence[TextPair]]) -> dict[str, Sequence[TextPair]]:
    """The parts without pairs whose source and target another pair has, apart from white space.

    The first one is kept. Of copies in several parts, that in the test split is kept, else in the development split,
    else among the training queries: published queries stay what they are, and no memory gives their answers away.
    """
    seen: set[bytes] = set()
    kept: dict[str, Sequence[TextPair]] = {}
    for part in sorted(parts, key=lambda part: _KEPT_FIRST.index(part) if part in _KEPT_FIRST else len(_KEPT_FIRST)):
        places = []
        for place, pair in enumerate(parts[part]):
            key = texts_key(" ".join(pair.source.split()), " ".join(pair.target.split()))
            if key not in seen:
                seen.add(key)
                places.append(place)
        kept[part] = take(parts[part], places)
    return {part: kept[part] for part in parts}
