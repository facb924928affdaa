"""Exact search for the nearest unit vectors: a quick comparison makes a shortlist, and float32 decides."""

from __future__ import annotations

from collections.abc import Iterator

import faiss
import numpy as np
import torch

from mrag_rl.memory.search import best_of_pairs

FEW = 3
"""Queries that FAISS compares faster, one by one, than a matrix product compares them."""

_GROUP = 32  # Vectors represented by their best product in the first round of the selection
_CHUNK = 1 << 20  # Products computed at once: they and their maxima stay in the caches
_HELD = 1 << 23  # Products held at once
_SPARE = 8  # Vectors beyond k that FAISS is asked for, because its rounding may put them before the k-th
_RESCORED = 1 << 22  # Numbers of the vectors that are copied at once


def quick_type() -> torch.dtype:
    """bfloat16 where the processor multiplies it, in half the time of float32."""
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.7 does not have it
    return torch.bfloat16 if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else torch.float32


class ExactSpace:
    """N unit vectors, of which every one is compared with a query."""

    def __init__(self, vectors: np.ndarray, quick: torch.dtype) -> None:
        """vectors: (N, d), copied. quick: the type of the products that make the shortlist."""
        padded = np.zeros((-(-len(vectors) // _GROUP) * _GROUP, vectors.shape[1]), np.float32)
        self.rows = padded[: len(vectors)]
        """(N, d) float32."""
        self.rows[:] = vectors
        exact = torch.from_numpy(padded)
        self._quick = exact.to(quick)  # the same memory for float32
        self._error = max(float(_rounding(exact[part], quick).max()) for part in _parts(*exact.shape))

    def held(self, queries: int) -> torch.Tensor:
        """Memory for the products of as many queries as `search` compares at once. Getting pages from the system takes
        longer than filling them, so allocate it once for many spaces of the same size."""
        padded = len(self._quick)
        return torch.empty(max(1, min(queries, _HELD // padded)) * padded, dtype=self._quick.dtype)

    def search_few(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As `search`, for `FEW` queries or fewer."""
        margin = 2 * self.rows.shape[1] * np.finfo(np.float32).eps
        wanted = min(k + _SPARE, len(self.rows))
        while True:
            products, found = faiss.knn(queries, self.rows, wanted, metric=faiss.METRIC_INNER_PRODUCT)
            least = products[:, k - 1 : k] - margin
            if wanted == len(self.rows) or (products[:, -1:] < least).all():
                query, place = np.nonzero(products >= least)
                pairs = torch.from_numpy(query), torch.from_numpy(found[query, place])
                return self._best(torch.from_numpy(queries), *pairs, k)
            wanted = min(2 * wanted, len(self.rows))

    @torch.inference_mode()
    def search(
        self, queries: np.ndarray, k: int, held: torch.Tensor, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k <= N vectors with the largest inner products with queries (B, d), unit vectors, float32, contiguous.

        held: as from `held`. allowed: (B, N) bool, which vectors a query may find.

        Returns indices (B, k) int64 and products (B, k) float32, best first, ties by index. They do not depend on the
        other queries. Places left empty have index -1 and product -inf.
        """
        batch = len(held) // len(self._quick)
        parts = []
        for first in range(0, max(1, len(queries)), batch):
            asked = torch.from_numpy(queries[first : first + batch])
            forbidden = None if allowed is None else torch.from_numpy(~allowed[first : first + batch].T)
            parts.append(self._best(asked, *self._shortlist(asked, k, held, forbidden), k))
        return np.concatenate([indices for indices, _ in parts]), np.concatenate([products for _, products in parts])

    def _shortlist(
        self, queries: torch.Tensor, k: int, held: torch.Tensor, forbidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs of a query and a vector with each query's k best and all that may be as good, as far as the rounding of
        the products tells: queries (P,) and vectors (P,), int64.

        Selecting costs far more for each number than taking a maximum, so it is done on one in `_GROUP` numbers: the k
        best are in groups whose maxima are no worse. forbidden: (N, B) bool.
        """
        count, padded = len(queries), len(self._quick)
        products = held[: padded * count].view(padded, count)
        maxima = torch.empty(count, padded // _GROUP)
        asked = queries.to(held.dtype).T
        step = max(1, _CHUNK // (_GROUP * max(1, count))) * _GROUP
        floats = torch.empty(min(step, padded), count)  # where the maximum of bfloat16 is slow, that of float32 is not
        for first in range(0, padded, step):
            chunk = products[first : first + step]
            torch.mm(self._quick[first : first + step], asked, out=chunk)
            real = chunk[: len(self.rows) - first]
            chunk[len(real) :] = -torch.inf
            if forbidden is not None:
                real.masked_fill_(forbidden[first : first + step], -torch.inf)
            groups = floats[: len(chunk)].copy_(chunk).view(len(chunk) // _GROUP, _GROUP, count)
            maxima[:, first // _GROUP : (first + step) // _GROUP] = groups.amax(dim=1).T
        # By how much a product is off: both vectors are rounded, the sum is, and then the product itself
        off = 1.01 * (_rounding(queries, held.dtype) + self._error) + queries.shape[1] * torch.finfo(torch.float32).eps
        unit = torch.finfo(held.dtype).eps / 2
        few = maxima.shape[1] <= k  # too few groups for the k-th best of their maxima
        kth = (products.T.float() if few else maxima).topk(k, sorted=False).values.amin(dim=1)
        exact = kth - 2 * off - unit * kth.abs()
        least = (exact - unit * exact.abs()).clamp_min(torch.finfo(torch.float32).min)[:, None]  # more than -inf
        query, group = torch.nonzero(maxima >= least, as_tuple=True)
        values = held[(group * (_GROUP * count) + query)[:, None] + count * torch.arange(_GROUP)].float()
        pair, member = torch.nonzero(values >= least[query], as_tuple=True)
        return query[pair], group[pair] * _GROUP + member

    def _best(
        self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best of pairs for each query, by products that are computed one by one."""
        rows, products = torch.from_numpy(self.rows), torch.empty(len(query))
        for part in _parts(len(query), queries.shape[1]):
            products[part] = (queries.index_select(0, query[part]) * rows.index_select(0, row[part])).sum(dim=1)
        return best_of_pairs(query.numpy(), row.numpy(), products.numpy(), len(queries), k, -np.inf)


def _parts(count: int, dimension: int) -> Iterator[slice]:
    """Slices of `count` vectors of which a copy is not too large."""
    step = max(1, _RESCORED // dimension)
    return (slice(start, start + step) for start in range(0, count, step))


def _rounding(vectors: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """How far vectors (n, d) of float32 are from themselves in another type, (n,). By Cauchy and Schwarz, an inner
    product of unit vectors changes by little more than the sum of both."""
    norms: torch.Tensor = torch.linalg.vector_norm(vectors - vectors.to(kind).float(), dim=1)
    return norms
