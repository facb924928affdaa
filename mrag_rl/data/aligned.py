"""Sentence-aligned corpora in XML, as tables whose columns are languages: TMX, and JRC-Acquis with its texts.

TMX 1.4 (Localization Industry Standards Association, 2005) has a unit ``<tu>`` with a ``<tuv xml:lang="de"><seg>`` for
each language. JRC-Acquis 3.0 (Steinberger et al. 2006) comes with a script, `getAlignmentWithText.pl`, which writes
``<link><s1>...</s1><s2>...</s2></link>`` below an element with the two languages, ``select="de en"``, and the document.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from mrag_rl.data.columns import Table, TableRow
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_aligned(path: StrPath) -> Table:
    """The units of a TMX file, or the links of JRC-Acquis with its texts; a column for each language, such as "de".

    A unit or link without text in one of the languages is left out, as is a further text in the same language. Regions
    are dropped from TMX's languages: "de-AT" is "de". Links have a column "id" besides: DOCUMENT.NUMBER.

    Raises InputError if the file is missing, is not XML, or has no units.
    """
    name = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"{name}: no such file; check the path")
    rows = []
    try:
        for number, values in enumerate(_units(path), start=1):
            rows.append(TableRow(f"{name}: unit {number}", values))
    except ElementTree.ParseError as error:
        raise InputError(
            f"{name}:{error.position[0]}: not valid XML ({error.msg}); unpack or download it again"
        ) from error
    except (LookupError, ValueError) as error:
        raise InputError(f"{name}: not XML in its declared encoding ({error}); save it as UTF-8") from error
    if not rows:
        raise InputError(f"{name}: no <tu> of TMX and no <link> with <s1> and <s2>; give an aligned corpus with texts")
    languages = list(dict.fromkeys(language for row in rows for language in row.values))
    spoken = [language for language in languages if language != "id"]
    return Table(
        name,
        languages,
        rows,
        sparse=True,
        hint=f"name the languages, such as --data.columns '{{source: {spoken[0]}, target: {spoken[-1]}}}'",
    )


def _units(path: StrPath) -> Iterator[dict[str, str]]:
    """The texts of each unit or link by language; the element is dropped once it is read, as files are large."""
    languages, document, number = ["s1", "s2"], "", 0
    for event, element in ElementTree.iterparse(path, ("start", "end")):
        if event == "start":
            if len(select := element.get("select", "").split()) == 2:
                languages = select
            if element.tag in ("linkGrp", "div") and element.get("n", document) != document:
                document, number = element.get("n", ""), 0
        elif element.tag == "tu":
            unit: dict[str, str] = {}
            for variant in element.iter("tuv"):
                language = (variant.get(_LANG) or variant.get("lang") or "").replace("_", "-").split("-")[0].lower()
                unit.setdefault(language, _text(variant.find("seg")))
            element.clear()
            yield unit
        elif element.tag == "link":
            number += 1
            sides = [_text(element.find(side)) for side in ("s1", "s2")]
            element.clear()
            if any(sides):
                yield dict(zip(languages, sides, strict=True)) | {"id": f"{document}.{number}"}


def _text(element: ElementTree.Element | None) -> str:
    """All text inside an element, that of its paragraphs side by side, with single spaces."""
    if element is None:
        return ""
    parts = element.findall("p") or [element]
    return " ".join(" ".join("".join(part.itertext()) for part in parts).split())
