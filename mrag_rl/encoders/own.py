"""An encoder of the user's own: a function that the setting `encoder.name` names by import path (docs/plugins.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.encoders.texts import check_texts, unique_texts
from mrag_rl.plugins import Plugin, check_parameters, loaded_plugin, trial, wrong_plugin

ENCODER_FORM = (
    "def encoder(texts: Sequence[str]) -> np.ndarray, floating-point numbers of shape (N, d) or (N, heads, d)"
)
AT_ONCE = 256
"""The most texts that are passed to the function in one call."""


class OwnEncoder:
    """A loaded plug-in as an encoder: a function from N texts to vectors (N, d), or per head (N, H, d).

    The vectors of the heads are made unit vectors. The standard embedding is all heads side by side as the function
    returned them, as a unit vector, so that a head counts by its norm; a single head is the standard embedding.

    Attributes:
        name: the import path.
        fingerprint: SHA-256 of the import path and of the SHA-256 of the file that the function is in.
        prefixes: none.
    """

    def __init__(self, path: str) -> None:
        """path: the import path of a plug-in. Raises InputError if it has not been loaded."""
        self._plugin = loaded_plugin(path)
        self._shape: tuple[int, ...] | None = None  # (H, d), as the first call returned
        self.name = path
        self.prefixes = Prefixes()
        self.fingerprint = hashlib.sha256(json.dumps([path, self._plugin.sha256]).encode()).hexdigest()

    def encode(
        self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False, pad: bool = True
    ) -> Embeddings:
        """The standard (N, H * d) and per-head (N, H, d) embeddings of N texts; see `TransformerEncoder.encode`.

        pad: without effect, as the function decides how it reads texts.

        Raises InputError for an empty text, for a text instead of a list, and if the function returns no such vectors.
        """
        check_texts(texts)
        unique, rows = unique_texts(texts)
        vectors = self._vectors([f"{prefix or ''}{text}" for text in unique], progress=progress)
        norms = np.linalg.norm(vectors, axis=-1)
        heads = vectors / np.maximum(norms, 1e-12)[..., None]
        return Embeddings(_side_by_side(vectors), heads, norms, encoder=self.fingerprint)[rows]

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        """The standard embeddings alone, (N, H * d) float32; that of an empty text is the zero vector."""
        unique, rows = unique_texts(texts)
        nonempty = [i for i, text in enumerate(unique) if text.strip()]
        made = _side_by_side(self._vectors([unique[i] for i in nonempty]))
        standard = np.zeros((len(unique), made.shape[1]), np.float32)
        standard[nonempty] = made
        embeddings: np.ndarray = standard[rows]
        return embeddings

    def _vectors(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        """(N, H, d) float32, as the function returns them."""
        if not texts:
            return self._call(["-"])[:0]
        parts = []
        with tqdm(total=len(texts), desc="encode", unit="text", disable=not progress) as bar:
            for start in range(0, len(texts), AT_ONCE):
                parts.append(self._call(texts[start : start + AT_ONCE]))
                bar.update(len(parts[-1]))
        return np.concatenate(parts)

    def _call(self, texts: Sequence[str]) -> np.ndarray:
        found = self._plugin.value(texts=list(texts))
        try:
            vectors = np.asarray(found)
        except (TypeError, ValueError) as error:
            raise wrong_plugin(self._plugin, f"it returned {type(found).__name__}, no array", ENCODER_FORM) from error
        if vectors.dtype.kind != "f":
            raise wrong_plugin(self._plugin, f"it returned an array of {vectors.dtype}", ENCODER_FORM)
        by_head = vectors[:, None] if vectors.ndim == 2 else vectors
        if by_head.ndim != 3 or len(by_head) != len(texts) or 0 in by_head.shape:
            problem = f"for {len(texts)} texts it returned an array of shape {vectors.shape}"
            raise wrong_plugin(self._plugin, problem, ENCODER_FORM)
        self._shape = self._shape or by_head.shape[1:]
        if by_head.shape[1:] != self._shape:
            problem = f"it returned (heads, d) of {by_head.shape[1:]}, {self._shape} before"
            raise wrong_plugin(self._plugin, problem, ENCODER_FORM)
        with np.errstate(over="ignore"):
            by_head = by_head.astype(np.float32)
        if not np.isfinite(by_head).all():
            raise wrong_plugin(self._plugin, "it returned numbers that are not finite in float32", ENCODER_FORM)
        return by_head


def check_own_encoder(plugin: Plugin) -> None:
    """Raises InputError that shows the signature wanted if the plug-in embeds no texts: two are embedded, and one of
    them alone, which must not change its vectors."""
    check_parameters(plugin, ("texts",), ENCODER_FORM)
    texts = ["The river rose.", "It fell again, and the town slept."]
    with trial(plugin, "two texts", ENCODER_FORM):
        encoder = OwnEncoder(plugin.path)
        both, alone = encoder.encode(texts), encoder.encode(texts[:1])
        if not np.allclose(both.heads[:1], alone.heads, atol=0.01):
            raise wrong_plugin(plugin, "the vectors of a text depend on the others of the call", ENCODER_FORM)


def _side_by_side(vectors: np.ndarray) -> np.ndarray:
    """(N, H * d) unit vectors of all heads together; a zero vector stays one."""
    flat = vectors.reshape(len(vectors), int(np.prod(vectors.shape[1:])))
    unit: np.ndarray = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    return unit
