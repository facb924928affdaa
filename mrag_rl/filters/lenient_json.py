"""A forgiving JSON parser for language models' answers: reads data from prose, and never evaluates anything.

It accepts JSON and also single and typographic quotes, True, False, None, trailing commas, tuples, sets (read as lists;
a set inside a list is merged into it, as in ``[{'a'}, 'b']``), unquoted keys, code fences, and introductions. It
refuses names, calls, operators, comments, string prefixes, NaN and Infinity, and also a key that occurs twice, because
JSON parsers differ on which of the two counts. It refuses what may change the meaning of the mapping, too: other words
right before it, other text on its line, brackets around it, another mapping below it, and what excludes, denies or asks
for others (``exclusion_words``) anywhere above or below it.
"""

from __future__ import annotations

import re
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.filters.exclusion_words import (
    AFTER,
    ALTERNATIVES,
    CUES,
    ENCLOSING_AFTER,
    NEGATIONS,
    REQUESTS,
    TITLES,
    pattern,
)
from mrag_rl.filters.parsing import MAX_TEXT

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
# What may stand before a mapping on its line, and on the line above it; other words may change its meaning
_INTRODUCING = {
    "sure", "ok", "okay", "yes", "certainly", "here", "here's", "is", "this", "the", "a", "your", "my", "it",
    "json", "python", "filter", "metadata", "query", "mongodb", "answer", "output", "result", "final",
    "extracted", "following", "as", "follows", "for", "of", "to", "question", "would", "be", "could", ":", "=",
    ",", ".", "!", '"', "'", "“", "‘",
}  # fmt: skip
_NEXT_QUESTION = re.compile(r"\n\s*(?:question|q|user)\b", re.IGNORECASE)  # a small model that goes on with another
# Words around a mapping that may reverse it, and what merely explains it
_REVERSING = re.compile(
    rf"(?<!\w)(?:{'|'.join(map(pattern, (CUES, REQUESTS, NEGATIONS, AFTER, ENCLOSING_AFTER, TITLES, ALTERNATIVES)))}"
    r"|(?:opposite|contrary|wrong|hid|hidden|umgekehrt)(?!\w)"
    r"|(?:inver[st]|revers|complement|negat|discard|dropp|exclu|reject|forb[ai]d|prohibit"
    r"|gegenteil|komplement|wegf[aä]ll|entf[aä]ll|contrair|contrari)\w*)(?!\w)"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_EXPLAINING = re.compile(
    r"\bquestion (?:(?:names|mentions|states|gives|has) no|does(?: not|n['’]t) (?:name|mention|state|give|have) an?y?)"
    r" (?:other |further )?(?:date|day|month|year|period|field|condition)s?\b"
    r"|\b(?:need|want|like) (?:any|some)thing else\b|\banything else\?",
    re.IGNORECASE,
)
_FENCE = re.compile(r"`{1,3}\w*\s*$")
_END_OF_LINE = re.compile(r"[\s`'\"”’.;,]*(?:\n|$)")


class _Set(list[Any]):
    """The elements of braces without colons."""


def read_mapping(text: str) -> dict[str, Any]:
    """The first mapping in a text, below an introduction and in code fences, if there are any.

    The first brace that opens a mapping decides: if that mapping is broken, no mapping inside or after it is used
    instead, nor is one inside other brackets. Raises InputError, with the position (a character, from 1) of what cannot
    be parsed or may change the meaning, if there is no mapping, and if the text is longer than ``MAX_TEXT``.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"filter: {len(text)} characters of text; give {MAX_TEXT} or fewer")
    match = _MAPPING.search(text)
    if match is None:
        raise InputError('filter: no mapping in the text; write one like {"source": {"$in": ["The Herald"]}}')
    start = match.start()
    before = _FENCE.sub("", text[:start])
    if re.search(r"[{}\[\]]", before):
        raise InputError(f"filter: brackets before the mapping at character {start + 1}; write plain JSON")
    introduction = before.rstrip().split("\n")
    if said_before := _reversing("\n".join(introduction[:-2])):
        raise InputError(f"filter: {said_before} before the mapping at character {start + 1}; write the mapping alone")
    for line in introduction[-2:]:
        pieces = re.findall(r"[\w'’]+|[^\w\s]", line.lower().replace("’", "'"))
        if before.rstrip(" ").endswith("!") or "!=" in line or not _INTRODUCING.issuperset(pieces):
            said = _quoted(line.strip())
            raise InputError(f"filter: {said} before the mapping at character {start + 1}; write the mapping alone")
    parser = _Parser(text, start)
    value = parser.value(0)
    assert isinstance(value, dict)
    end = _END_OF_LINE.match(text, parser.position)
    if end is None:
        raise InputError(f"filter: more on the line of the mapping, at character {parser.position + 1}; write it alone")
    rest = _NEXT_QUESTION.split(text[end.end() - 1 :], maxsplit=1)[0]
    if "{" in rest or (not value and "{" in text[end.end() :]):
        raise InputError(f"filter: another mapping after the one at character {start + 1}; write one mapping")
    if said_after := _reversing(rest):
        raise InputError(f"filter: {said_after} after the mapping at character {start + 1}; write it alone")
    return value


class _Parser:
    """A recursive descent over one text; ``position`` is the next character."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position
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
        match = _WORD.match(self._text, self.position)
        if match is not None and match[0] in _CONSTANTS:
            self.position = match.end()
            return _CONSTANTS[match[0]]
        if match is not None:
            raise self._error(f"{_quoted(match[0])} is not a value (names, calls and string prefixes are refused)")
        raise self._error(f"{_quoted(character)} is not the start of a value")

    def _braces(self, depth: int) -> dict[str, Any] | _Set:
        opening = self.position
        self.position += 1
        mapping: dict[str, Any] = {}
        elements = _Set()
        if self._closes("}"):
            return mapping
        while True:
            bare_key = _WORD.match(self._text, self.position) if self._next() not in _CLOSING else None
            if bare_key is not None and self._text[bare_key.end() :].lstrip()[:1] == ":":
                self.position = bare_key.end()
                key: Any = bare_key[0]
            else:
                key = self.value(depth + 1)
            if self._next() == ":":
                if elements or not isinstance(key, str):
                    raise self._error("a colon without a key")
                if key in mapping:
                    raise self._error(f"the key {_quoted(key)} a second time")
                self.position += 1
                item = self.value(depth + 1)
                mapping[key] = list(item) if isinstance(item, _Set) else item
            else:
                if mapping:
                    raise self._error("a key without a value")
                elements.append(key)
            if self._ends("}", opening):
                return elements if elements else mapping

    def _sequence(self, closing: str, depth: int) -> list[Any]:
        opening = self.position
        self.position += 1
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
        opening = self.position
        closing = _CLOSING[self._text[opening]]
        parts: list[str] = []
        self.position += 1
        while True:
            if self.position >= len(self._text):
                self.position = opening
                raise self._error("a string that does not end")
            character = self._text[self.position]
            self.position += 1
            if character == closing:
                break
            if character == "\n":
                raise self._error("a line break inside a string")
            parts.append(self._escape() if character == "\\" else character)
        # JSON escapes characters beyond U+FFFF as surrogate pairs.
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _escape(self) -> str:
        letter = self._text[self.position : self.position + 1]
        if letter in _ESCAPES:
            self.position += 1
            return _ESCAPES[letter]
        digits = {"u": 4, "x": 2}.get(letter, 0)
        code = self._text[self.position + 1 : self.position + 1 + digits]
        if not digits or not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code):
            raise self._error("an escape that JSON does not have")
        self.position += 1 + digits
        return chr(int(code, 16))

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self.position)
        if match is None:
            raise self._error("a number that cannot be read")
        self.position = match.end()
        return float(match[0]) if re.search(r"[.eE]", match[0]) else int(match[0])

    def _next(self) -> str:
        match = _SPACE.match(self._text, self.position)
        assert match is not None
        self.position = match.end()
        if self.position >= len(self._text):
            raise self._error("the text ends inside the filter")
        return self._text[self.position]

    def _closes(self, closing: str) -> bool:
        if self._next() != closing:
            return False
        self.position += 1
        return True

    def _ends(self, closing: str, opening: int) -> bool:
        """Skips a comma, or the closing bracket or both; whether the bracket is closed."""
        if self._closes(closing):
            return True
        if self._text[self.position] != ",":
            bracket, character = self._text[opening], self._text[self.position]
            raise self._error(f"{_quoted(character)} where a comma or {closing} (closing the {bracket}) is expected")
        self.position += 1
        return self._closes(closing)

    def _error(self, problem: str) -> InputError:
        place = min(self.position, len(self._text)) + 1
        return InputError(f"filter: {problem}, at character {place}; write plain JSON")


def _reversing(prose: str) -> str:
    """The words of a text, quoted, that may reverse a mapping beside it; "" if there are none."""
    found = _REVERSING.search(_EXPLAINING.sub("", prose))
    return _quoted(found[0]) if found else ""


def _quoted(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "…")
