"""Sentence-aligned corpora in XML, as tables whose columns are languages: TMX, and JRC-Acquis with its texts.

TMX 1.4 (Localization Industry Standards Association, 2005) has a unit ``<tu>`` with a ``<tuv xml:lang="de"><seg>`` for
each language. JRC-Acquis 3.0 (Steinberger et al. 2006) comes with a script, `getAlignmentWithText.pl`, which writes
``<link><s1>...</s1><s2>...</s2></link>`` below an element with the two languages, ``select="de en"``, and the document.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.parsers import expat

from mrag_rl.data.columns import Table, TableRow
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_blocks

_UNITS = ("tu", "link")


def read_aligned(path: StrPath) -> Table:
    """The units of a TMX file, or the links of JRC-Acquis with its texts; a column for each language, such as "de".

    A unit or link without text in one of the languages is left out, as is a further text in the same language. Regions
    are dropped from TMX's languages: "de-AT" is "de". Links have a column "id" besides: DOCUMENT.NUMBER. The file is
    read twice, the first time for the languages; one unit at a time is in memory.

    Raises InputError if the file is missing, is not XML, has no units, or declares entities, as a few of these in each
    other can stand for gigabytes.
    """
    name = os.fspath(path)
    languages = list(dict.fromkeys(language for unit in _units(name) for language in unit))
    if not languages:
        raise InputError(f"{name}: no <tu> of TMX and no <link> with <s1> and <s2>; give an aligned corpus with texts")
    spoken = [language for language in languages if language != "id"]
    return Table(
        name,
        languages,
        (TableRow(f"{name}: unit {number}", unit) for number, unit in enumerate(_units(name), start=1)),
        sparse=True,
        hint=f"name the languages, such as --data.columns '{{source: {spoken[0]}, target: {spoken[-1]}}}'",
    )


def _units(name: str) -> Iterator[dict[str, str]]:
    """The texts of each unit or link of a file by language. Raises InputError."""
    reader = _Reader(name)
    try:
        for block in read_blocks(name):
            yield from reader.read(block)
        yield from reader.read(b"", last=True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise InputError(f"{name}:{error.lineno}: not valid XML ({problem}); unpack or download it again") from error
    except InputError:
        raise
    except (LookupError, ValueError) as error:
        raise InputError(f"{name}: not XML in its declared encoding ({error}); save it as UTF-8") from error


class _Reader:
    """Reads XML piece by piece, and keeps no more of it than the tree of the unit or link that it is in."""

    def __init__(self, name: str) -> None:
        """name: the file as errors name it."""
        self._name = name
        self._languages, self._document, self._number = ["s1", "s2"], "", 0
        self._tree: ElementTree.TreeBuilder | None = None
        self._depth = 0  # of the open element within its unit or link
        self._found: list[dict[str, str]] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._declared
        self._parser.SkippedEntityHandler = self._skipped

    def read(self, block: bytes, *, last: bool = False) -> list[dict[str, str]]:
        """The units that end within the next bytes. Raises InputError for entities, and what expat raises."""
        self._found = []
        self._parser.Parse(block, last)
        return self._found

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(select := attributes.get("select", "").split()) == 2:
            self._languages = select
        if tag in ("linkGrp", "div") and attributes.get("n", self._document) != self._document:
            self._document, self._number = attributes["n"], 0
        if self._tree is None and tag in _UNITS:
            self._tree, self._depth = ElementTree.TreeBuilder(), 0
        if self._tree is not None:
            self._tree.start(tag, attributes)
            self._depth += 1

    def _characters(self, text: str) -> None:
        if self._tree is not None:
            self._tree.data(text)

    def _end(self, tag: str) -> None:
        if self._tree is None:
            return
        self._tree.end(tag)
        self._depth -= 1
        if self._depth == 0:
            element, self._tree = self._tree.close(), None
            if tag == "tu":
                self._found.append(_variants(element))
            else:
                self._number += 1
                sides = [_text(element.find(side)) for side in ("s1", "s2")]
                if any(sides):
                    texts = dict(zip(self._languages, sides, strict=True))
                    self._found.append(texts | {"id": f"{self._document}.{self._number}"})

    def _declared(self, entity: str, is_parameter: bool, *rest: object) -> None:
        if not is_parameter:
            where = f"{self._name}:{self._parser.CurrentLineNumber}"
            mend = "write its text where it is used (xmllint --noent OLD > NEW)"
            raise InputError(f"{where}: declares the entity &{entity};, and entities are not expanded; {mend}")

    def _skipped(self, entity: str, is_parameter: bool) -> None:
        if not is_parameter:
            where = f"{self._name}:{self._parser.CurrentLineNumber}"
            raise InputError(f"{where}: the entity &{entity}; is not declared; write its text in its place")


def _variants(unit: ElementTree.Element) -> dict[str, str]:
    """The texts of a unit of TMX by language."""
    texts: dict[str, str] = {}
    for variant in unit.iter("tuv"):
        language = (variant.get("xml:lang") or variant.get("lang") or "").replace("_", "-").split("-")[0].lower()
        texts.setdefault(language, _text(variant.find("seg")))
    return texts


def _text(element: ElementTree.Element | None) -> str:
    """All text inside an element, that of its paragraphs side by side, with single spaces."""
    if element is None:
        return ""
    parts = element.findall("p") or [element]
    return " ".join(" ".join("".join(part.itertext()) for part in parts).split())
