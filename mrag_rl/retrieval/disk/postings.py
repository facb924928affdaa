"""BM25 over texts that are on disk: which words each text has, and which texts have each word."""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
from scipy.sparse import csr_array

from mrag_rl.errors import InputError
from mrag_rl.retrieval.disk.arrays import ArrayWriter, FilesWriter, map_array, ranges, write_array
from mrag_rl.retrieval.words import words

K1, B = 1.5, 0.75  # Those of `WordIndex`
_SEEN = "seen_words.safetensors"
_PART = 1 << 22  # Occurrences of words in texts that are sorted together


def hashed(text: str) -> int:
    """64 bits of a text's BLAKE2b hash, which stand for a word or an id; two of a million agree once in 37 million
    collections."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class PostingsWriter(FilesWriter):
    """Counts the words of texts, in order, and writes them to a folder: a context, at whose end the rest is written."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._numbers: dict[str, int] = {}  # The words so far, in order of appearance
        self._starts, self._lengths = array("q", [0]), array("q")
        self._words = self._files.enter_context(ArrayWriter(folder / _SEEN, np.int32))
        self._counts = self._files.enter_context(ArrayWriter(folder / "text_counts.safetensors", np.uint16))

    def append(self, texts: Sequence[str]) -> None:
        """Add texts."""
        rows = [Counter(words(text)) for text in texts]
        numbers = [self._numbers.setdefault(word, len(self._numbers)) for row in rows for word in row]
        counts = [count for row in rows for count in row.values()]
        self._lengths.extend(row.total() for row in rows)
        self._starts.extend((self._starts[-1] + np.cumsum([len(row) for row in rows])).tolist())
        self._words.append(np.array(numbers, np.int32))
        self._counts.append(np.minimum(np.array(counts, np.int64), np.iinfo(np.uint16).max))

    def _finish(self) -> None:
        """Number the words by their hashes, and write which texts have each."""
        hashes = np.array([hashed(word) for word in self._numbers], np.uint64)
        order = np.argsort(hashes)
        numbers = np.empty(len(order), np.int32)
        numbers[order] = np.arange(len(order), dtype=np.int32)
        write_array(self._folder / "words.safetensors", hashes[order])
        starts = np.array(self._starts, np.int64)
        write_array(self._folder / "text_starts.safetensors", starts)
        seen = map_array(self._folder / _SEEN)
        with ArrayWriter(self._folder / "text_words.safetensors", np.int32) as writer:
            for start in range(0, len(seen), _PART):
                writer.append(numbers[seen[start : start + _PART]])
        (self._folder / _SEEN).unlink()
        _write_by_word(self._folder, starts, len(order))
        write_array(self._folder / "lengths.safetensors", np.array(self._lengths, np.int32))


def _write_by_word(folder: Path, starts: np.ndarray, words: int) -> None:
    """From which words each text has, starts (N + 1,), write which texts have each, rising: sorted in parts, which are
    then put together for some words after the other. In memory are a part and some bytes for each word, or the texts of
    one word where these are more."""
    numbers, counts = (map_array(folder / f"text_{name}.safetensors") for name in ("words", "counts"))
    sizes = np.zeros(words, np.int64)
    with tempfile.TemporaryFile(dir=folder) as of_words, tempfile.TemporaryFile(dir=folder) as of_texts:
        places = [(0, 0)]  # Where each part begins in the two files
        for first, last in _parts(starts):
            own = slice(starts[first], starts[last])
            table = csr_array(
                (counts[own].astype(np.int32), numbers[own], starts[first : last + 1] - starts[first]),
                shape=(last - first, words),
            ).tocsc()
            of_word = np.diff(table.indptr)
            found = np.flatnonzero(of_word)
            sizes += of_word
            begins = np.stack([np.append(found, words), np.append(table.indptr[found], table.indptr[-1])])
            of_words.write(begins.astype(np.int64).data)
            of_texts.write(np.stack([table.indices + first, table.data]).astype(np.int32).data)
            places.append((places[-1][0] + begins.size, places[-1][1] + 2 * table.nnz))
        flat = [_mapped(of_words, np.int64), _mapped(of_texts, np.int32)]
        parts = [
            (flat[0][begin:end].reshape(2, -1), flat[1][at:to].reshape(2, -1))
            for (begin, at), (end, to) in pairwise(places)
        ]
        word_starts = np.concatenate([[0], np.cumsum(sizes)])
        write_array(folder / "word_starts.safetensors", word_starts)
        with (
            ArrayWriter(folder / "word_texts.safetensors", np.int32) as texts_writer,
            ArrayWriter(folder / "word_counts.safetensors", np.uint16) as counts_writer,
        ):
            for first, last in _parts(word_starts):
                free = word_starts[first:last] - word_starts[first]
                merged = np.empty((2, int(word_starts[last] - word_starts[first])), np.int32)
                for (found, begins), occurrences in parts:
                    low, high = np.searchsorted(found, [first, last])
                    rows, of_rows = found[low:high] - first, begins[low : high + 1]
                    lengths = np.diff(of_rows)
                    at, _ = ranges(free[rows], free[rows] + lengths)
                    merged[:, at] = occurrences[:, of_rows[0] : of_rows[-1]]
                    free[rows] += lengths
                texts_writer.append(merged[0])
                counts_writer.append(merged[1])


def _parts(starts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of lists that have `_PART` entries together at most, or are one list. starts: of the lists and the end."""
    first, lists = 0, len(starts) - 1
    while first < lists:
        last = int(np.searchsorted(starts, starts[first] + _PART, side="right")) - 1
        last = max(first + 1, last)
        yield first, last
        first = last


def _mapped(file: IO[bytes], kind: type[np.generic]) -> np.ndarray:
    """All numbers of a file, mapped into memory."""
    file.flush()
    return np.asarray(np.memmap(file, kind, "r")) if file.tell() else np.empty(0, kind)


@dataclass(frozen=True)
class Postings:
    """The words of N texts, mapped from a folder of `PostingsWriter`.

    Attributes:
        words: (T,) uint64, hashes of the words, rising; a word's place is its number.
        lengths: (N,) int32, words in each text.
        texts: (starts (N + 1,), word numbers, counts), text by text.
        occurrences: (starts (T + 1,), texts, counts), word by word.
        counted: (N,) bool, the texts by which words are weighed, as if there were no others; None for all.
    """

    words: np.ndarray
    lengths: np.ndarray
    texts: tuple[np.ndarray, np.ndarray, np.ndarray]
    occurrences: tuple[np.ndarray, np.ndarray, np.ndarray]
    counted: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path) -> Postings:
        """Map the files. Raises FileNotFoundError, and InputError for damaged ones."""

        def mapped(name: str) -> np.ndarray:
            return map_array(folder / f"{name}.safetensors")

        postings = cls(
            mapped("words"),
            mapped("lengths"),
            (mapped("text_starts"), mapped("text_words"), mapped("text_counts")),
            (mapped("word_starts"), mapped("word_texts"), mapped("word_counts")),
        )
        for count, lists in ((len(postings.lengths), postings.texts), (len(postings.words), postings.occurrences)):
            starts, *values = lists
            if len(starts) != count + 1 or {len(array) for array in values} != {int(starts[-1])}:
                raise InputError(f"{folder}: its words do not fit each other; restore the index from a copy")
        return postings

    @cached_property
    def count(self) -> int:
        """The number of texts."""
        return len(self.lengths) if self.counted is None else int(self.counted.sum())

    @cached_property
    def length(self) -> int:
        """Words in all texts together."""
        lengths = self.lengths if self.counted is None else self.lengths[self.counted]
        return int(lengths.sum(dtype=np.int64))

    def numbers(self, hashes: np.ndarray) -> np.ndarray:
        """The numbers of words (t,) int64, -1 for those that no text has."""
        if not len(self.words):
            return np.full(len(hashes), -1, np.int64)
        places = np.minimum(np.searchsorted(self.words, hashes), len(self.words) - 1)
        return np.where(self.words[places] == hashes, places, -1)

    def frequencies(self, numbers: np.ndarray) -> np.ndarray:
        """How many texts have each of some words, (t,) int64."""
        starts, texts, _ = self.occurrences
        if self.counted is None:
            return np.where(numbers < 0, 0, starts[numbers + 1] - starts[np.maximum(numbers, 0)])
        frequencies = np.zeros(len(numbers), np.int64)
        for place in np.flatnonzero(numbers >= 0).tolist():
            own = slice(*starts[numbers[place] : numbers[place] + 2].tolist())
            frequencies[place] = np.count_nonzero(self.counted[texts[own]])
        return frequencies

    def found(self, numbers: np.ndarray, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The texts that have words (t,) and are allowed (N,), how often, and which of the words, word by word."""
        starts, texts, counts = self.occurrences
        if allowed is None:
            places, owners = ranges(starts[numbers], starts[numbers + 1])
            return texts[places], counts[places], owners
        rows, seen = [np.empty(0, texts.dtype)], [np.empty(0, counts.dtype)]
        for number in numbers.tolist():
            own = slice(*starts[number : number + 2].tolist())
            kept = np.flatnonzero(allowed[texts[own]])
            rows.append(texts[own][kept])
            seen.append(counts[own][kept])
        return np.concatenate(rows), np.concatenate(seen), np.repeat(np.arange(len(numbers)), [*map(len, rows[1:])])


@dataclass(frozen=True)
class WordQuery:
    """Voters' words, and how much each weighs in all segments together.

    Attributes:
        hashes: (t,) uint64, the different words of V voters.
        weights: (V, t) float32: a word's inverse document frequency, times how often a voter has it.
        average: Words in a text, on average.
    """

    hashes: np.ndarray
    weights: csr_array
    average: float

    @classmethod
    def of(cls, voters: Sequence[str], segments: Iterable[Postings]) -> WordQuery:
        """Weigh the words of voters by the segments' texts: Lucene's inverse document frequency, as in `WordIndex`."""
        segments = list(segments)
        rows = [Counter(map(hashed, words(text))) for text in voters]
        hashes = np.unique(np.array([word for row in rows for word in row], np.uint64))
        texts = sum(segment.count for segment in segments)
        frequencies = np.zeros(len(hashes), np.int64)
        for segment in segments:
            frequencies += segment.frequencies(segment.numbers(hashes))
        inverse = np.log(1 + (texts - frequencies + 0.5) / (frequencies + 0.5)) * (frequencies > 0)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        columns = np.searchsorted(hashes, np.array([word for row in rows for word in row], np.uint64))
        counts = np.array([count for row in rows for count in row.values()], np.float64)
        weights = csr_array((counts * inverse[columns], columns, starts), shape=(len(rows), len(hashes)))
        average = sum(segment.length for segment in segments) / max(1, texts)
        return cls(hashes, weights.astype(np.float32), average)

    def _saturated(self, counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        share = K1 * (1 - B + B * lengths / max(self.average, 1e-9))
        saturated: np.ndarray = counts / (counts + share)
        return saturated.astype(np.float32)

    def scores(self, segment: Postings, rows: np.ndarray) -> np.ndarray:
        """BM25 of the texts `rows` (n,) of a segment for each voter, (V, n) float32."""
        starts, numbers, counts = segment.texts
        places, owners = ranges(starts[rows], starts[rows + 1])
        of_query = segment.numbers(self.hashes)
        known = np.flatnonzero(of_query >= 0)
        column = np.searchsorted(of_query[known], numbers[places])  # Rising, as the hashes are
        found = np.isin(numbers[places], of_query[known])
        places, owners, column = places[found], owners[found], known[column[found]]
        values = self._saturated(counts[places], segment.lengths[rows[owners]])
        table = csr_array((values, (owners, column)), shape=(len(rows), len(self.hashes)))
        scores: np.ndarray = (self.weights @ table.T).toarray()
        return scores

    def best(
        self, segment: Postings, k: int, allowed: np.ndarray | None = None, *, budget: int | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The k best texts of a segment for each voter: their rows and BM25 scores, unordered, only those above 0.

        allowed: (N,) bool. budget: occurrences of words in texts that are `counted`, for each voter, its rarest words
        first and one word at least; None for all, which makes the scores exact.
        """
        of_query = segment.numbers(self.hashes)
        frequencies = segment.frequencies(of_query)
        chosen = self.weights.tocsr(copy=True)
        if budget is not None:
            for voter in range(chosen.shape[0]):
                own = slice(chosen.indptr[voter], chosen.indptr[voter + 1])
                order = np.argsort(frequencies[chosen.indices[own]], kind="stable")
                spent = np.cumsum(frequencies[chosen.indices[own]][order])
                present = np.flatnonzero(spent > 0)[:1]
                dropped = spent > budget
                dropped[present] = False
                chosen.data[own.start + order[dropped]] = 0
            chosen.eliminate_zeros()
        columns = np.unique(chosen.indices[of_query[chosen.indices] >= 0])
        rows, seen, owners = segment.found(of_query[columns], allowed)
        values = self._saturated(seen, segment.lengths[rows])
        table = csr_array((values, (owners, rows)), shape=(len(columns), len(segment.lengths)))
        scores = (chosen[:, columns] @ table).tocsr()
        best = []
        for voter in range(scores.shape[0]):
            own = slice(scores.indptr[voter], scores.indptr[voter + 1])
            found, score = scores.indices[own], scores.data[own]
            if len(found) > k:
                last = np.partition(score, -k)[-k]
                # Ties of the last place go to the lower rows
                tied = np.flatnonzero(score == last)
                tied = tied[np.argsort(found[tied])][: k - np.count_nonzero(score > last)]
                chosen_places = np.concatenate([np.flatnonzero(score > last), tied])
                found, score = found[chosen_places], score[chosen_places]
            best.append((found.astype(np.int64), score))
        return best
