"""Loading a reranker of either kind: a cross-encoder, or a late-interaction model."""

from __future__ import annotations

from typing import Literal

from mrag_rl.models.weights import find_model
from mrag_rl.retrieval.multi_vector import MultiVectorReranker
from mrag_rl.retrieval.multi_vector_files import is_multi_vector
from mrag_rl.retrieval.rerank import CrossEncoder, Reranker


def load_reranker(
    name_or_path: str, *, device: str = "cpu", dtype: Literal["float32", "bfloat16", "float16"] = "float32"
) -> Reranker:
    """A late-interaction model where the files of the folder or hub model say so, a cross-encoder otherwise.

    dtype: type of weights and arithmetic; scores are always float32.

    Raises InputError: as `MultiVectorReranker.load` and `CrossEncoder.load`.
    """
    folder = find_model(name_or_path, role="reranker")
    kind = MultiVectorReranker if is_multi_vector(folder) else CrossEncoder
    return kind.load(str(folder), device=device, dtype=dtype)
