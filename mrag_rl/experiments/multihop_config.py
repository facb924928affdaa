"""The settings of `evaluate.py multihop`, in a file given to `--config` and on the command line."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mrag_rl.errors import InputError
from mrag_rl.settings import SettingsReader, option_values


@dataclass(frozen=True)
class MultihopConfig:
    """What is compared, on which questions, with which models."""

    output: str
    """Where to write the results (JSON)."""
    documents: str | None = None
    """JSONL file of documents, or MultiHop-RAG's corpus.json; null for the bundled news."""
    queries: str | None = None
    """JSONL file of questions, or MultiHopRAG.json; null for those of the bundled news."""
    strategies: tuple[str, ...] | None = None
    """Retrieval strategies; null is standard, mrag and late_interaction, and with an LLM fusion and fusion_mrag."""
    fetch: int = 20
    """Chunks found for a question."""
    passages: int = 6
    """Chunks that the LLM is shown."""
    reranker: str | None = None
    """A cross-encoder, folder or hub name, that orders what was found anew."""
    llm: str | None = None
    """Reads filters, writes queries and answers: bundled, a folder or a hub name; null for none."""
    fusion_queries: int = 4
    """Queries that the LLM writes for a question, for fusion and fusion_mrag."""
    chunk_tokens: int = 256
    """Tokens of a chunk, at most."""
    chunk_overlap: int = 32
    """Tokens that two neighbouring chunks share, at most."""
    embeddings: str | None = None
    """Folder where vectors are kept and found again; null is embeddings, beside the output."""
    encoder: str = "all-MiniLM-L6-v2"
    """Folder or hub name of the encoder."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the encoder's weights."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""
    prefix: str = ""
    """Instruction put before every question for the encoder."""


def read_multihop_config(
    arguments: Sequence[str], *, program: str = "evaluate.py multihop", description: str = "", epilog: str = ""
) -> MultihopConfig:
    """The settings in a command line, whose options outweigh the file wherever they stand.

    Options may be written with dashes (`--chunk-tokens 128`) and lists without brackets (`--strategies standard mrag`).
    Raises InputError (one line); `--help` prints and exits as argparse does.
    """
    reader = SettingsReader(MultihopConfig, program, description=description, epilog=epilog)
    files = [part for path in option_values(arguments, "--config") for part in ("--config", path)]
    return reader.read([*files, *_spelled_out(arguments, reader.keys)])[0]


def _spelled_out(arguments: Sequence[str], keys: typing.Mapping[str, object]) -> list[str]:
    """The options as the reader wants them, less --config: underscores in names, brackets around lists."""
    found: list[str] = []
    position = 0
    while position < len(arguments):
        option, equals, value = arguments[position].partition("=")
        position += 1
        if option == "--config":
            position += not equals
            continue
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or name not in keys:
            found.append(f"{option}{equals}{value}")
            continue
        values = [value] if equals else []
        is_list = any(typing.get_origin(hint) is tuple for hint in typing.get_args(keys[name]))
        while position < len(arguments) and not arguments[position].startswith("--") and (is_list or not values):
            values.append(arguments[position])
            position += 1
        if not values:
            raise InputError(f"{option} needs a value; --help lists the settings")
        if is_list and not values[0].startswith(("[", "null")):
            values = [f"[{', '.join(values)}]"]
        found += [f"--{name}", *values]
    return found
