"""The web application: one page, its form, and nothing for other sites."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from mrag_rl.errors import InputError
from mrag_rl.ui.desks import Desk, Form
from mrag_rl.ui.pages import POLICY, write_page

MOST_BYTES = 1_000_000
"""Of a form."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(desk: Desk, executor: Executor, hosts: Sequence[str]) -> Starlette:
    """The application of a desk.

    Args:
        executor: has one thread, that which opened the desk.
        hosts: names by which browsers may ask for the page. Others are refused, so that no site whose name leads to
            this machine reads it.
    """

    async def show(request: Request) -> Response:
        return _page(write_page(desk, Form()))

    async def answer(request: Request) -> Response:
        if not _from_here(request):
            return PlainTextResponse("forms of other sites are not answered", status_code=403)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return PlainTextResponse(f"a form has {MOST_BYTES:,} bytes at most", status_code=413)
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=10_000)
        except ValueError as error:
            return _page(write_page(desk, Form(), error=str(error)), status=400)
        form = Form()
        try:
            form = Form.read(fields)
            form, found = await asyncio.get_running_loop().run_in_executor(executor, desk.answer, form)
        except InputError as error:
            return _page(write_page(desk, form, error=str(error)), status=400)
        return _page(write_page(desk, form, found))

    return Starlette(
        routes=[Route("/", show), Route("/", answer, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
    )


def _from_here(request: Request) -> bool:
    """Whether a form comes from our own page, as far as the browser says where it comes from."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        return False
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _page(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status_code=status, headers=_HEADERS)
