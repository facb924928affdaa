"""A connection to a Milvus server, or to Milvus Lite's, and the errors of both."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from pymilvus import MilvusClient
from pymilvus.exceptions import MilvusException

from mrag_rl.errors import InputError
from mrag_rl.settings import check_store_address

_SECONDS = 10  # To connect

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # its errors are raised; it prints their tracebacks besides


@contextmanager
def connected(address: str) -> Iterator[MilvusClient]:
    """A client that is closed after the block. Raises MilvusException, grpc.RpcError, InputError."""
    client = connect(address)
    try:
        yield client
    finally:
        client.close()


def connect(address: str) -> MilvusClient:
    """A client of the server at ``milvus+http(s)://HOST[:PORT][/DATABASE]``; its token is in MILVUS_TOKEN.

    Raises MilvusException, grpc.RpcError, InputError.
    """
    check_store_address(address)
    found = re.fullmatch(r"milvus\+(https?://[^/:]+)(:[0-9]+)?/?([^/]*)", address)
    assert found is not None, "checked above"
    server = found[1] + (found[2] or ":19530")
    token = os.environ.get("MILVUS_TOKEN", "")
    # Shared connections would mix http and https, are never closed, and wait long after a server was away
    own = {"dedicated": True, "grpc_options": {"grpc.use_local_subchannel_pool": 1}}
    return MilvusClient(server, token=token, db_name=found[3], timeout=_SECONDS, **own)


@contextmanager
def reported(name: str, what: str) -> Iterator[None]:
    """Turn an error of Milvus in the block into an InputError that names the store. what: "read", "written"."""
    try:
        yield
    except (MilvusException, grpc.RpcError) as error:
        text = re.sub(r"\s+", " ", str(getattr(error, "message", None) or error)).strip()[:200]
        raise InputError(
            f"{name}: Milvus cannot be {what}: {text}; check that the server runs, the address, and MILVUS_TOKEN; then "
            "run it again"
        ) from error
