"""Late-interaction models: query and passage are read apart, and their tokens' vectors are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModel

from mrag_rl.access import document_mask
from mrag_rl.errors import InputError
from mrag_rl.extras import MissingExtra, require
from mrag_rl.models.devices import check_device
from mrag_rl.models.pretrained import load_pretrained, loading
from mrag_rl.models.weights import find_model
from mrag_rl.retrieval.multi_vector_files import check_multi_vector
from mrag_rl.retrieval.rerank import Reranker
from mrag_rl.retrieval.voting import Ranking, top

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_QUERIES = 64  # Compared with all documents at once
_BLOCK = 1024  # Passages whose vectors are held at once: of 300 tokens with 128 numbers each, they take 160 MB
_BY = "a late-interaction model"


class MultiVectorReranker(Reranker):
    """Scores pairs of texts by a late-interaction model, such as ColBERT.

    The score is MaxSim (Khattab and Zaharia 2020, "ColBERT: Efficient and Effective Passage Search via Contextualized
    Late Interaction over BERT", equation 3): the sum over the query's tokens of the largest similarity with a token of
    the passage. A model that states "meanmaxsim" divides it by the number of the query's tokens, which orders the
    passages of a query alike.

    Query and passage are read apart, so that each distinct text is read once, and longer ones are cut off where the
    model's files say. Make one with ``MultiVectorReranker.load``.
    """

    def __init__(self, model: MultiVectorEncoder, *, fingerprint: str, batch_size: int = 32) -> None:
        """fingerprint: a hash of weights and settings. batch_size: as in ``load``.

        Raises InputError for batch_size < 1.
        """
        if batch_size < 1:
            raise InputError(f"late-interaction model: batch_size is {batch_size}; give 1 or more")
        self.model = model.eval()
        self.fingerprint = fingerprint
        self.batch_size = batch_size

    @classmethod
    def load(
        cls,
        name_or_path: str,
        *,
        device: str = "cpu",
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        batch_size: int = 32,
    ) -> MultiVectorReranker:
        """Load a local folder or a model of the hub in one of three layouts (see `multi_vector_files`).

        dtype: type of weights and arithmetic; vectors are compared, and scores are, in float32. batch_size: texts in a
        batch.

        Raises MissingExtra without sentence-transformers 6 or newer. Raises InputError: model not found or of another
        kind, weights missing, pickled or not loadable, code of its own, no such device.
        """
        require("colbert", "sentence_transformers", by=_BY)
        try:
            from sentence_transformers import MultiVectorEncoder
        except ImportError as error:
            raise MissingExtra(
                f"{_BY} needs sentence-transformers 6 or newer: pip install 'mrag-rl[colbert]'"
            ) from error
        check_device(device)
        folder = find_model(name_or_path, role="late-interaction model")
        fingerprint = check_multi_vector(folder)
        kind = getattr(torch, dtype)
        with loading(folder, role="late-interaction model"):
            model = MultiVectorEncoder(
                str(folder),
                device=device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True, "dtype": kind},
            )
            if not set(model.modalities) <= {"text", "message"}:
                raise InputError(
                    f"late-interaction model {folder}: reads {', '.join(map(str, model.modalities))}; "
                    "give one of texts alone"
                )
            # Layers that do not fit each other are only found by running them.
            model.similarity(model.encode_query(["a"]), model.encode_document(["a"]))
        _check_complete(folder, model, kind)
        return cls(model, fingerprint=fingerprint, batch_size=batch_size)

    def scores(self, pairs: Sequence[tuple[str, str]], *, progress: bool = False) -> np.ndarray:
        """The scores of P pairs (query, passage), (P,) float32. Each distinct text is encoded once."""
        scores = np.empty(len(pairs), np.float32)
        queries = list(dict.fromkeys(query for query, _ in pairs))
        # Passages of similar length share a batch.
        passages = sorted(dict.fromkeys(passage for _, passage in pairs), key=len)
        query_vectors = self.token_vectors(queries, "query")
        rows = {query: row for row, query in enumerate(queries)}
        columns = {passage: column for column, passage in enumerate(passages)}
        query_of = np.array([rows[query] for query, _ in pairs], np.int64)
        passage_of = np.array([columns[passage] for _, passage in pairs], np.int64)
        with tqdm(total=len(passages), desc="rerank", unit="passage", disable=not progress) as bar:
            for start in range(0, len(passages), _BLOCK):
                block = self.token_vectors(passages[start : start + _BLOCK], "document")
                places = np.flatnonzero((passage_of >= start) & (passage_of < start + _BLOCK))
                scores[places] = self.model.similarity_pairwise(
                    [query_vectors[row] for row in query_of[places]],
                    [block[column - start] for column in passage_of[places]],
                    device=self.model.device,
                ).cpu()
                bar.update(len(block))
        return scores

    def token_vectors(self, texts: Sequence[str], side: Literal["query", "document"]) -> list[np.ndarray]:
        """The vectors of each text's tokens, (tokens, d) float32; marked, filled up and cut off as the model's files
        state for this side."""
        encode = self.model.encode_query if side == "query" else self.model.encode_document
        vectors = encode(list(texts), batch_size=self.batch_size, convert_to_numpy=True, show_progress_bar=False)
        return [rows.astype(np.float32, copy=False) for rows in vectors]


class TokenIndex:
    """N documents as the vectors of their tokens, all compared with each query: late interaction without a first stage.

    The vectors stay in memory: 4 bytes times dimensions times tokens, 7.7 GB for 100,000 documents of 150 tokens with
    128 dimensions.
    """

    def __init__(self, model: MultiVectorReranker, texts: Sequence[str], *, progress: bool = False) -> None:
        """Encode documents, of which each distinct text is read once.

        Raises InputError for no documents.
        """
        if not texts:
            raise InputError("index: no documents; give at least one")
        self.model, self.size = model, len(texts)
        # Documents of similar length are compared together
        distinct = sorted(dict.fromkeys(texts), key=len)
        self._vectors: list[np.ndarray] = []
        with tqdm(total=len(distinct), desc="encode tokens", unit="document", disable=not progress) as bar:
            for start in range(0, len(distinct), _BLOCK):
                self._vectors += model.token_vectors(distinct[start : start + _BLOCK], "document")
                bar.update(len(self._vectors) - start)
        places = {text: place for place, text in enumerate(distinct)}
        self._places = np.array([places[text] for text in texts])

    def search(self, queries: Sequence[str], fetch: int = 10, allowed: np.ndarray | None = None) -> Ranking:
        """The best min(fetch, N) documents for each of B queries by the scores of `MultiVectorReranker`, ties by index.

        allowed: (B, N) bool, the documents that each query may find; places left empty have index -1, score -inf.

        Raises InputError: fetch < 1, `allowed` of another shape or type.
        """
        if fetch < 1:
            raise InputError(f"fetch is {fetch}; give 1 or more")
        if allowed is not None:
            allowed = document_mask(allowed, len(queries), self.size)
        scores = np.empty((len(queries), self.size), np.float64)
        for start in range(0, len(queries), _QUERIES):
            vectors = self.model.token_vectors(queries[start : start + _QUERIES], "query")
            compared = self.model.model.similarity(vectors, self._vectors, device=self.model.model.device).cpu().numpy()
            scores[start : start + _QUERIES] = compared[:, self._places]
        return top(scores, fetch, allowed)


def _check_complete(folder: Path, model: MultiVectorEncoder, dtype: torch.dtype) -> None:
    """Raises InputError for weights that the transformer's files lack, which were drawn at random; a pooler may be,
    because it comes after the tokens' vectors."""
    assert model.transformers_model is not None
    needed = model.transformers_model.state_dict()
    for name in load_pretrained(AutoModel, folder, role="late-interaction model", dtype=dtype)[2]:
        if name in needed and "pooler" not in name:
            raise InputError(f"late-interaction model {folder}: no weights for {name}; give a folder with all weights")
