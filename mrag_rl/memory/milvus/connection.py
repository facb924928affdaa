"""A connection to a Milvus server, or to Milvus Lite's, and the errors of both."""

from __future__ import annotations

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


@contextmanager
def connected(address: str) -> Iterator[MilvusClient]:
    """A client that is closed after the block. Raises MilvusException, grpc.RpcError, InputError."""
    client = connect(address)
    try:
        yield client
    finally:
        client.close()


def connect(address: str) -> MilvusClient:
    """A client of the server at milvus+http(s)://HOST:PORT[/DATABASE]; its token is in MILVUS_TOKEN.

    Raises MilvusException, grpc.RpcError, InputError.
    """
    check_store_address(address)
    found = re.fullmatch(r"milvus\+(https?://[^/]+)/?([^/]*)", address)
    assert found is not None, "checked above"
    token = os.environ.get("MILVUS_TOKEN", "")
    return MilvusClient(found[1], token=token, db_name=found[2], timeout=_SECONDS)


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
