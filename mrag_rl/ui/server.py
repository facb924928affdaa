"""Serves the page until it is interrupted."""

from __future__ import annotations

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import uvicorn

from mrag_rl.errors import InputError
from mrag_rl.runs.ui_settings import UISettings
from mrag_rl.ui.app import make_app
from mrag_rl.ui.desks import open_desk

_MOST_AT_ONCE = 32


def run(settings: UISettings) -> str:
    """Load what the settings name, and serve its page until the process is interrupted.

    Raises InputError as `ask` does, for an address that cannot be listened on, and for one that other machines reach
    without a name by which they may ask.
    """
    hosts = _hosts(settings)
    try:
        listener = socket.create_server((settings.host, settings.port))
    except OSError as error:
        raise InputError(f"cannot listen on {settings.host}:{settings.port}: {error}; give another --port") from error
    # Databases and models stay in the thread that opened them, and answer one text after another.
    with listener, ThreadPoolExecutor(1) as executor:
        opened = ExitStack()
        desk = executor.submit(opened.enter_context, open_desk(settings)).result()
        try:
            host, port = listener.getsockname()
            name = settings.names[0] if settings.names else host
            print(f"Open http://{name}:{port} in a browser (Ctrl-C ends)", flush=True)
            config = uvicorn.Config(
                make_app(desk, executor, hosts), log_level="warning", access_log=False, server_header=False,
                proxy_headers=False, lifespan="off", limit_concurrency=_MOST_AT_ONCE, timeout_graceful_shutdown=5,
            )  # fmt: skip
            with suppress(KeyboardInterrupt):  # the way to end it
                uvicorn.Server(config).run(sockets=[listener])
        finally:
            executor.submit(opened.close).result()
    return ""


def _hosts(settings: UISettings) -> list[str]:
    """The names by which browsers may ask."""
    try:
        address = ipaddress.IPv4Address(settings.host)
    except ValueError:
        raise InputError(f"host is {settings.host}; give an IPv4 address, such as 127.0.0.1") from None
    if address.is_unspecified and not settings.names:
        raise InputError(f"{address} lets other machines in; name with --names how their browsers may ask for the page")
    own = ["localhost", settings.host] if address.is_loopback else [settings.host]
    return [*own, *settings.names]
