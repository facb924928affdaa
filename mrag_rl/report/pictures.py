"""Figures inside a page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


def inline_svg(figure: Figure, name: str, title: str) -> Markup:
    """A figure as an SVG element whose black and white are the ink and the paper of the page around it.

    name: unique in the page; the figure's identifiers are derived from it. title: for those who do not see it.
    """
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for child in root.findall(f"{_SVG}metadata") + root.findall(f"{_SVG}defs[{_SVG}style]"):
        root.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)  # as HTML has it
        if reference := element.attrib.pop(f"{_XLINK}href", None):
            element.set("href", reference)
        if element.tag == "g":
            element.attrib.pop("id", None)  # "axes_1" in every figure; nothing refers to it
        if style := element.get("style"):
            element.set("style", style.replace("#000000", "currentColor").replace("#ffffff", "var(--paper)"))
    root.attrib.pop("height", None)
    root.attrib |= {"role": "img", "aria-label": title, "fill": "currentColor"}
    # Matplotlib and ElementTree have escaped every text in it.
    return Markup(ElementTree.tostring(root, encoding="unicode"))
