"""How many texts a second does the encoder embed, and what do batches and bfloat16 change?

    python -m benchmarks.encoding [--texts 256] [--words 20] [--encoder all-MiniLM-L6-v2]

Prints a Markdown table: texts a second with encode (standard and heads) and encode_standard, and with one text at a
time, and how much bfloat16 changes cosine similarities: the largest and mean change over all pairs of texts, and how
often a text's nearest other text stays the same. Set OMP_NUM_THREADS to choose the number of cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Literal

import numpy as np

from mrag_rl.encoders import Embeddings, TransformerEncoder

WORDS = (
    "the of to in and a council voted on new plan for river harbour school team won final match after late goal "
    "minister said prices would rise this winter while shops reported lower sales scientists found older bones near "
    "coast storm closed roads bridges across northern towns film opened festival critics praised young actor"
)


def random_texts(count: int, words: int, seed: int) -> list[str]:
    """Texts of ``words`` / 2 to ``words`` * 3 / 2 words of news English in random order."""
    rng = np.random.default_rng(seed)
    words_of_news = WORDS.split()
    return [" ".join(rng.choice(words_of_news, rng.integers(words // 2, words * 3 // 2 + 1))) for _ in range(count)]


def rate(work: Callable[[], object], texts: int) -> float:
    """Texts a second: the better of two timings, after one warm-up."""
    work()
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return texts / min(seconds)


def shifts(reference: Embeddings, other: Embeddings) -> str:
    """Table cells: change of cosines between ``reference`` and ``other`` over all pairs, standard and heads."""
    cells = []
    a, b = reference.standard @ reference.standard.T, other.standard @ other.standard.T
    change = np.abs(a - b)
    heads = np.abs(
        np.einsum("nhd,mhd->nmh", reference.heads, reference.heads)
        - np.einsum("nhd,mhd->nmh", other.heads, other.heads)
    )
    for values in (change, heads):
        cells.append(f"{values.max():.5f} ({values.mean():.5f})")
    np.fill_diagonal(a, -1)
    np.fill_diagonal(b, -1)
    cells.append(f"{np.mean(a.argmax(1) == b.argmax(1)):.1%}")
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--words", type=int, default=20)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    a = parser.parse_args()
    texts = random_texts(a.texts, a.words, seed=0)
    first_texts = texts[:32]
    print("| dtype | batch tokens | encode texts/s | encode_standard texts/s | times one at a time ", end="")
    print("| cosine change, max (mean) | heads | same nearest text |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    reference = None
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    for dtype in dtypes:
        encoder = TransformerEncoder.load(a.encoder, dtype=dtype)
        single = rate(lambda e=encoder: [e.encode([text]) for text in first_texts], len(first_texts))  # type: ignore[misc]
        for batch_tokens in (512, 1024, 4096):
            encoder.batch_tokens = batch_tokens
            both = rate(lambda e=encoder: e.encode(texts), len(texts))  # type: ignore[misc]
            alone = rate(lambda e=encoder: e.encode_standard(texts), len(texts))  # type: ignore[misc]
            embeddings = encoder.encode(texts)
            reference = reference or embeddings
            cells = f"{both:.0f} | {alone:.0f} | {both / single:.1f} | {shifts(reference, embeddings)}"
            print(f"| {dtype} | {batch_tokens} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
