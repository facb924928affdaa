"""JSON from outside, parsed within bounds, so that whatever is loaded can also be stored, encoded and compared.

Python's parser takes more than JSON has (NaN, infinities, half a surrogate pair), silently keeps the last of two equal
keys, and follows nesting down to the end of the stack. Such values would fail long after they were loaded.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

DEEPEST = 64
"""The most objects and lists inside one another."""
LONGEST = 2**26
"""The most characters of one JSON text: a line of a JSON Lines file, or a whole file."""
LARGEST = 2**63
"""Whole numbers lie below it, and at or above its negative: what SQLite and NumPy hold."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class UnacceptableJSON(ValueError):
    """Valid for Python's parser, but not within the bounds; the message says what and how to mend it."""


def parse_json(text: str, *, infinite: bool = False) -> Any:
    """The value of a JSON text.

    infinite: also accept NaN and infinities, for files of other programs that have them. Raises UnacceptableJSON for
    what is not within the bounds, and json.JSONDecodeError.
    """
    if len(text) > LONGEST:
        raise UnacceptableJSON(f"{len(text):,} characters of JSON, more than {LONGEST:,}; split it")
    deep = text.count("[") + text.count("{") > DEEPEST
    hooks: dict[str, Any] = {} if infinite else {"parse_constant": _refuse, "parse_float": _number}
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_whole_number, **hooks)
    except RecursionError as error:
        raise _too_deep() from error
    if deep and _depth(value) > DEEPEST:
        raise _too_deep()
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise UnacceptableJSON(
                f"\\u{ord(error.object[error.start]):04x} is half of a character (a lone surrogate), which no text can "
                "hold; write the whole character or leave it out"
            ) from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise UnacceptableJSON(f'the key "{repeated_key(pairs)[:40]}" appears twice in one object; keep one of them')
    return values


def repeated_key(pairs: Sequence[tuple[str, Any]]) -> str:
    """The first key that pairs of a key and a value have more than once; there is one."""
    counts = Counter(name for name, _ in pairs)
    return next(name for name, count in counts.items() if count > 1)


def _refuse(constant: str) -> float:
    raise UnacceptableJSON(f"{constant} is no JSON number; leave the key out or write null")


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise UnacceptableJSON(f"the number {digits[:20]} is too large for 64 bits; write a smaller one")
    return value


def _whole_number(digits: str) -> int:
    if len(digits) <= 20 and -LARGEST <= (value := int(digits)) < LARGEST:
        return value
    raise UnacceptableJSON(f"the number {digits[:20]}... is too large for 64 bits; write a smaller one, or text")


def _too_deep() -> UnacceptableJSON:
    return UnacceptableJSON(f"JSON nested too deeply, more than {DEEPEST} objects and lists; make it flatter")


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth
