"""Nearest vectors among those on disk: by comparison with all of them, or by an inverted file."""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from tqdm import tqdm

from mrag_rl.errors import InputError
from mrag_rl.memory.search import best_of_pairs, margin_of, rescored
from mrag_rl.retrieval.disk.arrays import damaged

INVERTED_FROM = 20_000_000  # Numbers of the vectors that may be found, from which an inverted file is used
_LISTS = b"ilar"  # Begins the lists in FAISS's file: how many, bytes of a code, all sizes, each list's codes and rows
_BUCKET, _BUCKETS = 1 << 28, 64  # Bytes of codes that are sorted by cells together; files of these at most
_SCANNED = 1 << 15  # Vectors compared at once
_TRAINED = 40  # Vectors for each cell, from which the cells' centres are learnt
_PROBES = 32  # Cells that a search looks into
_BREADTH = 128  # Cells that are held while the nearest are looked for; with few, a walk stays in a group of like ones
_COMPARED = 2  # Vectors that an inverted file finds for each place; the best are chosen by their exact cosines


def build_inverted(vectors: np.ndarray, path: Path, *, progress: bool = False) -> None:
    """Write an inverted file (IVF; Jégou et al. 2011) with one byte for each number of unit vectors (N, d).

    It is the file that FAISS writes after `add`, which would hold all of it in memory. Here the codes lie in files on
    the way, each of some cells next to each other; in memory are one of these, 4 bytes for each vector, and the centres
    with the sample that they are learnt from. Raises OSError.
    """
    count, dimension = vectors.shape
    cells = 2 ** round(np.log2(4 * np.sqrt(count)))
    index: Any = faiss.index_factory(dimension, f"IVF{cells}_HNSW32,SQ8", faiss.METRIC_INNER_PRODUCT)
    sample = np.random.default_rng(0).choice(count, min(count, _TRAINED * cells), replace=False)
    index.train(np.ascontiguousarray(vectors[np.sort(sample)], np.float32))
    coarse, cell_of = index.coarse_code_size(), np.empty(count, np.int32)
    buckets = min(_BUCKETS, cells, math.ceil(count * index.code_size / _BUCKET))
    firsts = np.linspace(0, cells, buckets + 1).round().astype(np.int64)  # Of the cells of each bucket
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for _ in range(buckets)]
        starts = range(0, count, _SCANNED)
        for start in tqdm(starts, desc=f"index {path.stem}", unit="block", disable=not progress):
            found = index.sa_encode(np.ascontiguousarray(vectors[start : start + _SCANNED], np.float32))
            own = cell_of[start : start + len(found)] = found[:, :coarse] @ (1 << 8 * np.arange(coarse))
            bucket = np.searchsorted(firsts, own, side="right") - 1
            for number, file in enumerate(files):
                file.write(np.ascontiguousarray(found[bucket == number, coarse:]).data)
        inverted = stack.enter_context(open(path, "xb"))
        index.ntotal = count
        trained = faiss.serialize_index(index).tobytes()
        inverted.write(trained[: trained.rindex(_LISTS)])
        inverted.write(_LISTS + struct.pack("<QQ4sQ", cells, index.code_size, b"full", cells))
        inverted.write(np.bincount(cell_of, minlength=cells).astype("<u8").data)
        for file, first, last in zip(files, firsts, firsts[1:], strict=False):
            members = np.flatnonzero((first <= cell_of) & (cell_of < last))
            file.seek(0)
            codes = np.frombuffer(file.read(), np.uint8).reshape(len(members), index.code_size)
            order = np.argsort(cell_of[members], kind="stable")
            ends = np.searchsorted(cell_of[members[order]], np.arange(first + 1, last))
            for rows in np.split(order, ends):
                inverted.write(codes[rows].data)
                inverted.write(members[rows].astype("<i8").data)
            file.truncate(0)


class Neighbours:
    """Finds the nearest of N unit vectors (N, d) on disk, with an inverted file if there is one."""

    def __init__(self, vectors: np.ndarray, inverted: Path) -> None:
        """inverted: the file of `build_inverted`, which need not exist. Raises InputError if it is damaged, and
        FileNotFoundError if it is removed meanwhile."""
        self.vectors = vectors
        self._inverted = None
        if inverted.is_file():
            try:
                self._inverted = faiss.read_index(str(inverted), faiss.IO_FLAG_MMAP)
            except RuntimeError as error:
                inverted.stat()  # FileNotFoundError, if another process has removed it meanwhile
                raise damaged(inverted) from error
            for name, value in (("nprobe", _PROBES), ("quantizer_efSearch", _BREADTH)):
                faiss.ParameterSpace().set_index_parameter(self._inverted, name, value)
            if self._inverted.ntotal != len(vectors) or self._inverted.d != vectors.shape[1]:
                raise InputError(f"{inverted}: not of these vectors; build the index again, or restore it from a copy")

    def nearest(self, queries: np.ndarray, k: int, allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest to queries (B, d): rows (B, k) int64 and cosines (B, k) float32, best first, ties by row.

        Cosines are computed in float64 and then rounded, and these are what is ranked. Places left empty have row -1
        and cosine -inf. allowed: (N,) bool.
        """
        count = len(self.vectors) if allowed is None else int(allowed.sum())
        queries = np.ascontiguousarray(queries, np.float32)
        if not count or not len(queries):
            return np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
        if self._inverted is None or count < k or count * self.vectors.shape[1] < INVERTED_FROM:
            return scanned(queries, k, self._blocks(allowed))
        settings = None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            chosen = faiss.IDSelectorBitmap(len(self.vectors), faiss.swig_ptr(bits))
            # Where few are allowed, each cell has few of them
            probes = math.ceil(_PROBES * len(self.vectors) / count)
            settings = faiss.SearchParametersIVF(sel=chosen, nprobe=probes)  # type: ignore[call-arg]
        _, found = self._inverted.search(queries, _COMPARED * k, params=settings)
        if (found >= 0).sum(axis=1).min() < k:
            return scanned(queries, k, self._blocks(allowed))
        owners, places = np.nonzero(found >= 0)
        rows = found[owners, places]
        exact = rescored(queries[:, None], self.vectors[None], owners, rows).astype(np.float32)
        return best_of_pairs(owners, rows, exact, len(queries), k, -np.inf)

    def _blocks(self, allowed: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        places = None if allowed is None else np.flatnonzero(allowed)
        count = len(self.vectors) if places is None else len(places)
        for start in range(0, count, _SCANNED):
            end = min(start + _SCANNED, count)
            if places is None:
                yield np.arange(start, end), self.vectors[start:end]
            else:
                yield places[start:end], self.vectors[places[start:end]]


@torch.inference_mode()
def scanned(
    queries: np.ndarray, k: int, blocks: Iterable[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest to queries (B, d) of all vectors, which come in blocks of rows (n,), rising, and vectors (n, d).

    Returns what `Neighbours.nearest` does. Products of matrices only shortlist, because their last digits depend on
    the shapes; each block's shortlist is compared again, one pair at a time in float64, and rounded to float32.
    """
    asked, margin = torch.from_numpy(queries), margin_of(queries.shape[1])
    best_rows, best = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
    for rows, vectors in blocks:
        products = asked @ torch.from_numpy(vectors).float().T
        bars = torch.from_numpy(best[:, -1:])
        if len(rows) >= k:
            bars = torch.maximum(bars, products.topk(k, dim=1).values[:, -1:])
        query, column = (found.numpy() for found in torch.nonzero(products >= bars - margin, as_tuple=True))
        exact = rescored(queries[:, None], vectors[None], query, column).astype(np.float32)
        kept, place = np.nonzero(best_rows >= 0)
        best_rows, best = best_of_pairs(
            np.concatenate([kept, query]),
            np.concatenate([best_rows[kept, place], rows[column]]),
            np.concatenate([best[kept, place], exact]),
            len(queries),
            k,
            -np.inf,
        )
    return best_rows, best
