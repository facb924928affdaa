"""A report as HTML."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mrag_rl import __version__
from mrag_rl.report.contents import Partition, Report
from mrag_rl.report.pictures import inline_svg
from mrag_rl.report.texts import clipped, differences, shown

MOST_BYTES = 4_500_000
"""Of a page, so that it opens at once."""
LENGTHS = (4000, 1000, 250, 60)
"""The most characters that are shown of a text: the first of these with which a page is not too large, or the last."""


def render(report: Report) -> str:
    """The page of a report: one file, in which nothing is loaded from elsewhere.

    Its policy allows no script but its own, so that a text that looks like one could not run even if it were not
    escaped.
    """
    environment = page_environment("mrag_rl.report")
    style, script = (environment.get_template(name).render() for name in ("style.css", "script.js"))
    values = {
        "report": report,
        "version": __version__,
        "style": Markup(style),
        "script": Markup(script),
        "script_sha256": script_hash(script),
        "drawings": [inline_svg(chart.figure, name, chart.title) for name, chart in report.pictures],
        "differences": differences,
        "scale": scale,
    }
    template = environment.get_template("report.html")
    for length in LENGTHS:
        page = template.render(values, clip=functools.partial(clipped, length=length))
        if len(page.encode()) <= MOST_BYTES:
            break
    return page


@functools.cache
def page_environment(*packages: str) -> Environment:
    """The template engine of pages, which finds templates in these packages.

    What a page prints of a text is escaped, and shows what would hide a part of it (`texts.shown`).
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=lambda name: name is None or name.endswith(".html"),
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_hash(script: str) -> str:
    """By which a page's policy allows its script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def scale(partitions: Sequence[Partition]) -> Callable[[float], float]:
    """A function from similarity to 0..1, between the least and the greatest of these partitions'."""
    values = [value for row in partitions for value in row.similarities or ()]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return lambda value: round((value - low) / (high - low), 2) if high > low else 0.5


def _finalize(value: Any) -> Any:
    """What a template prints of a value: of a text what `shown` says, except where it is markup of our own."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value
