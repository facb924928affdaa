"""The page as HTML: a form, and the answer below it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from mrag_rl import __version__
from mrag_rl.report.page import page_environment, scale, script_hash
from mrag_rl.ui.desks import Desk, Form

_ENVIRONMENT = page_environment("mrag_rl.ui", "mrag_rl.report")
_STYLE, _SCRIPT = (_ENVIRONMENT.get_template(name) for name in ("ui.css", "ui.js"))

POLICY = (
    f"default-src 'none'; img-src data:; script-src 'sha256-{script_hash(_SCRIPT.render())}'; "
    "style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser lets the page do: run its one script, and send its form to where it came from."""


def write_page(desk: Desk, form: Form, found: dict[str, Any] | None = None, error: str | None = None) -> str:
    """A desk's page with a form filled in, and an answer or an error."""
    values = {
        "desk": desk,
        "form": form,
        "ticked": set(desk.names if form.allowed is None else form.allowed),
        "error": error,
        "found": found,
        "scale": scale,
        "version": __version__,
        "style": Markup(_STYLE.render()),
        "script": Markup(_SCRIPT.render()),
    }
    return _ENVIRONMENT.get_template(desk.template).render(values)
