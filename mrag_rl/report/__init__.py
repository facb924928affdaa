"""Reports: one self-contained HTML file that a browser shows without a server or a network.

What a report says is in `contents`; `page` renders it. Texts are escaped by the template engine, and characters that
would hide what a text says are shown by their numbers (`texts.shown`).
"""

from mrag_rl.extras import require

require("train", "jinja2", "markupsafe", "matplotlib", by=__name__)

from mrag_rl.report.contents import (
    Answer,
    Column,
    Fact,
    Partition,
    Picture,
    Query,
    Report,
    Retrieved,
    Setting,
    Table,
)
from mrag_rl.report.page import render

__all__ = [
    "Answer",
    "Column",
    "Fact",
    "Partition",
    "Picture",
    "Query",
    "Report",
    "Retrieved",
    "Setting",
    "Table",
    "render",
]
