"""A forgiving JSON parser for language models' answers: reads data from prose, and never evaluates anything.

It accepts JSON and also single and typographic quotes, True, False, None, trailing commas, tuples, sets (read as lists;
a set inside a list is merged into it, as in ``[{'a'}, 'b']``), unquoted keys, and prose or code fences around the
mapping. It refuses names, calls, operators, comments, string prefixes, NaN and Infinity, and also a key that occurs
twice, because JSON parsers differ on which of the two counts.
"""

from __future__ import annotations

import re
from typing import Any

from mrag_rl.errors import InputError

MAX_TEXT = 20_000
"""Characters of the longest text that is parsed."""
MAX_NESTING = 24
"""Nesting levels of brackets."""
MAX_ITEMS = 2_000
"""Values in one text, all nesting levels together."""

_CONSTANTS: dict[str, bool | None] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "None": None,
}  # fmt: skip
_CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "/": "/", '"': '"', "'": "'"}
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?(?![\w.])")
_WORD = re.compile(r"[$A-Za-z_][\w$]*")
_KEY = r"""(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|“[^”\n]{0,200}”|‘[^’\n]{0,200}’|[$\w]{1,200})"""
_MAPPING = re.compile(rf"\{{\s*(?:\}}|{_KEY}\s*:)")


class _Set(list[Any]):
    """The elements of braces without colons."""


def read_mapping(text: str) -> dict[str, Any]:
    """The first mapping in a text, whatever prose or code fences surround it.

    The first brace that opens a mapping decides: if that mapping is broken, no mapping inside or after it is used
    instead, nor is one inside other braces. Raises InputError, with the position (a character, from 1) of what cannot
    be parsed, if there is no mapping, and if the text is longer than ``MAX_TEXT``.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"filter: {len(text)} characters of text; give {MAX_TEXT} or fewer")
    match = _MAPPING.search(text)
    if match is None:
        raise InputError('filter: no mapping in the text; write one like {"source": {"$in": ["The Herald"]}}')
    before = text[: match.start()]
    if before.count("{") > before.count("}"):
        raise InputError(f"filter: braces around the mapping at character {match.start() + 1}; write plain JSON")
    value = _Parser(text, match.start()).value(0)
    assert isinstance(value, dict)
    return value


class _Parser:
    """A recursive descent over one text."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self._position = position
        self._items = 0

    def value(self, depth: int) -> Any:
        self._items += 1
        if self._items > MAX_ITEMS:
            raise self._error(f"more than {MAX_ITEMS} values")
        if depth > MAX_NESTING:
            raise self._error(f"more than {MAX_NESTING} nested brackets")
        character = self._next()
        if character == "{":
            return self._braces(depth)
        if character == "[":
            return self._sequence("]", depth)
        if character == "(":
            return self._sequence(")", depth)
        if character in _CLOSING:
            return self._string()
        if character.isdigit() or character in "+-.":
            return self._number()
        match = _WORD.match(self._text, self._position)
        if match is not None and match[0] in _CONSTANTS:
            self._position = match.end()
            return _CONSTANTS[match[0]]
        if match is not None:
            raise self._error(f"{_quoted(match[0])} is not a value (names, calls and string prefixes are refused)")
        raise self._error(f"{_quoted(character)} is not the start of a value")

    def _braces(self, depth: int) -> dict[str, Any] | _Set:
        opening = self._position
        self._position += 1
        mapping: dict[str, Any] = {}
        elements = _Set()
        if self._closes("}"):
            return mapping
        while True:
            bare_key = _WORD.match(self._text, self._position) if self._next() not in _CLOSING else None
            if bare_key is not None and self._text[bare_key.end() :].lstrip()[:1] == ":":
                self._position = bare_key.end()
                key: Any = bare_key[0]
            else:
                key = self.value(depth + 1)
            if self._next() == ":":
                if elements or not isinstance(key, str):
                    raise self._error("a colon without a key")
                if key in mapping:
                    raise self._error(f"the key {_quoted(key)} a second time")
                self._position += 1
                item = self.value(depth + 1)
                mapping[key] = list(item) if isinstance(item, _Set) else item
            else:
                if mapping:
                    raise self._error("a key without a value")
                elements.append(key)
            if self._ends("}", opening):
                return elements if elements else mapping

    def _sequence(self, closing: str, depth: int) -> list[Any]:
        opening = self._position
        self._position += 1
        items: list[Any] = []
        if self._closes(closing):
            return items
        while True:
            item = self.value(depth + 1)
            if isinstance(item, _Set):
                items.extend(item)
            else:
                items.append(item)
            if self._ends(closing, opening):
                return items

    def _string(self) -> str:
        opening = self._position
        closing = _CLOSING[self._text[opening]]
        parts: list[str] = []
        self._position += 1
        while True:
            if self._position >= len(self._text):
                self._position = opening
                raise self._error("a string that does not end")
            character = self._text[self._position]
            self._position += 1
            if character == closing:
                break
            if character == "\n":
                raise self._error("a line break inside a string")
            parts.append(self._escape() if character == "\\" else character)
        # JSON escapes characters beyond U+FFFF as surrogate pairs.
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _escape(self) -> str:
        letter = self._text[self._position : self._position + 1]
        if letter in _ESCAPES:
            self._position += 1
            return _ESCAPES[letter]
        digits = {"u": 4, "x": 2}.get(letter, 0)
        code = self._text[self._position + 1 : self._position + 1 + digits]
        if not digits or not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code):
            raise self._error("an escape that JSON does not have")
        self._position += 1 + digits
        return chr(int(code, 16))

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._position)
        if match is None:
            raise self._error("a number that cannot be read")
        self._position = match.end()
        return float(match[0]) if re.search(r"[.eE]", match[0]) else int(match[0])

    def _next(self) -> str:
        match = _SPACE.match(self._text, self._position)
        assert match is not None
        self._position = match.end()
        if self._position >= len(self._text):
            raise self._error("the text ends inside the filter")
        return self._text[self._position]

    def _closes(self, closing: str) -> bool:
        if self._next() != closing:
            return False
        self._position += 1
        return True

    def _ends(self, closing: str, opening: int) -> bool:
        """Skips a comma, or the closing bracket or both; whether the bracket is closed."""
        if self._closes(closing):
            return True
        if self._text[self._position] != ",":
            bracket, character = self._text[opening], self._text[self._position]
            raise self._error(f"{_quoted(character)} where a comma or {closing} (closing the {bracket}) is expected")
        self._position += 1
        return self._closes(closing)

    def _error(self, problem: str) -> InputError:
        place = min(self._position, len(self._text)) + 1
        return InputError(f"filter: {problem}, at character {place}; write plain JSON")


def _quoted(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "…")
