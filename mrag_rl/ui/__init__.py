"""The page of `mrag-rl ui`: texts and questions answered in a browser, as `ask` answers them.

`desks` answers what a form asks, `pages` writes the page, `app` is the web application and `server` serves it.
"""

from mrag_rl.extras import require

require("ui", "markupsafe", "starlette", "uvicorn", by=__name__)

from mrag_rl.ui.app import make_app
from mrag_rl.ui.desks import Desk, DocumentsDesk, Form, RunDesk
from mrag_rl.ui.server import run

__all__ = ["Desk", "DocumentsDesk", "Form", "RunDesk", "make_app", "run"]
