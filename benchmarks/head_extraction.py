"""How much do the heads' embeddings add to the forward pass that the standard embedding needs anyway?

    python -m benchmarks.head_extraction [--texts 16] [--words 60] [--rounds 31] [--hidden 384] [--layers 6]

The models of all architectures are random, so nothing is downloaded. The plain pass is encode_standard: the same
batches, tokenised, run and pooled over tokens. Each round times all three, starting with another one; the clock counts
this process's CPU seconds, which other programs disturb less than wall time. Prints a Markdown table: texts a second of
the plain pass, and how much longer encode takes, as the median over rounds with its quartiles: with the last layer's
heads, and with those of all layers at once. Set OMP_NUM_THREADS to choose the number of cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel

from benchmarks.encoding import random_texts
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.models.weights import find_model

GROUPED = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma")
ARCHITECTURES = ("bert", "roberta", "gpt2", "llama", "mistral", "mixtral", "phi", "qwen2", "qwen3", "gemma", "gpt_neox")


def random_model(architecture: str, hidden: int, layers: int, heads: int) -> PreTrainedModel:
    """A randomly initialised model with MiniLM's vocabulary; four experts and two key-value heads if it has such."""
    sizes = {"vocab_size": 30522, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    more = {"n_inner": 4 * hidden} if architecture == "gpt2" else {"intermediate_size": 4 * hidden}
    if architecture in GROUPED:
        more |= {"num_key_value_heads": 2, "head_dim": hidden // heads}
    if architecture == "mixtral":
        more |= {"num_local_experts": 4, "num_experts_per_tok": 2}
    if architecture == "gpt2":
        more |= {"bos_token_id": 101, "eos_token_id": 102}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModel.from_config(AutoConfig.for_model(architecture, **sizes, **more))
    model.train(False)
    return model


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=12)
    a = parser.parse_args()
    texts = random_texts(a.texts, a.words, seed=0)
    print("| architecture | plain texts/s | heads of the last layer | heads of all layers |")
    print("|---|---:|---:|---:|", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2"))
    medians = []
    for architecture in ARCHITECTURES:
        model = random_model(architecture, a.hidden, a.layers, a.heads)
        last, all_layers = (
            TransformerEncoder(model, tokenizer, name=architecture, weights_hash="0", max_length=256, layer=layer)
            for layer in (-1, range(a.layers))
        )
        works = (partial(last.encode_standard, texts), partial(last.encode, texts), partial(all_layers.encode, texts))
        for work in works:
            work()
        times = np.empty((a.rounds, 3))
        for i in range(a.rounds):
            for which in np.roll((0, 1, 2), i):
                times[i, which] = seconds(works[which])
        low, median, high = np.percentile(100 * (times[:, 1:] / times[:, :1] - 1), (25, 50, 75), axis=0)
        medians.append(median)
        cells = [f"{median[i]:+.1f}% ({low[i]:+.1f} to {high[i]:+.1f})" for i in (0, 1)]
        print(f"| {architecture} | {len(texts) / np.median(times[:, 0]):.0f} | {' | '.join(cells)} |", flush=True)
    largest = np.max(medians, axis=0)
    print(f"\nlargest cost: {largest[0]:+.1f}% for the last layer's heads, {largest[1]:+.1f}% for those of all layers")


if __name__ == "__main__":
    main()
