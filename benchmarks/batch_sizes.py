"""How fast does a language model answer at several batch sizes, and are the answers the same?

    python -m benchmarks.batch_sizes --pairs FILE.jsonl [--llm gemma-3-270m] [--dtype float32] [--sizes 1 8 32]
    python -m benchmarks.batch_sizes --pairs FILE.jsonl --llm NAME --server http://127.0.0.1:8080

The prompts are translations with one memory each: 32 pairs of the file, each with another pair of it. Prints seconds to
load and to the first answer, then for each batch size the generated tokens per second (the time to read the prompts
included), the tokens read per second, and how many answers equal those of the first batch size; at the end the peak
memory. `arithmetic` is what the generated and the read tokens take in multiplications and additions, per second.

With a server, a batch size is the number of requests at a time, and only the generated tokens are reported, as the
server counts them. Switch off its cache of prompts, from which the second batch size would profit (llama.cpp:
--no-cache-prompt).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from mrag_rl.data import load_pairs
from mrag_rl.generation import LLM, Prompt
from mrag_rl.generation.prompts import translation
from mrag_rl.generation.transformers_llm import TransformersLLM


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=("German", "English"))
    parser.add_argument("--llm", default="gemma-3-270m")
    parser.add_argument("--server", help="address of a server with OpenAI's interface, where --llm is a name")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    pairs = load_pairs(arguments.pairs)[: 2 * arguments.prompts]
    task = translation(*arguments.languages)
    prompts = [
        Prompt(task, query.source, ((memory.source, memory.target),))
        for query, memory in zip(pairs[::2], pairs[1::2], strict=False)  # The last of an odd number has no other
    ]
    limit = arguments.max_new_tokens
    if arguments.server:
        from mrag_rl.generation.server_llm import ServerLLM  # It comes with an extra of its own

        llms = [
            ServerLLM.connect(arguments.server, arguments.llm, concurrency=size, timeout=600)
            for size in arguments.sizes
        ]
        compare(llms, arguments.sizes, prompts, limit)
        return
    started = time.perf_counter()
    llm = TransformersLLM.load(arguments.llm, dtype=arguments.dtype)
    loaded = time.perf_counter()
    llm.generate(prompts[:1], max_new_tokens=limit)
    print(f"loaded in {loaded - started:.1f} s, first answer after {time.perf_counter() - loaded:.1f} s more")
    compare([llm] * len(arguments.sizes), arguments.sizes, prompts, limit)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def compare(llms: Sequence[LLM], sizes: Sequence[int], prompts: Sequence[Prompt], limit: int) -> None:
    """Prints a line for each batch size, with the model at that place of the list."""
    first: list[str] = []
    for llm, size in zip(llms, sizes, strict=True):
        together = size if isinstance(llm, TransformersLLM) else len(prompts)  # A server gets `size` at a time
        answers, made, seconds = written(llm, prompts, together, limit)
        first = first or answers
        equal = sum(a == b for a, b in zip(answers, first, strict=True))
        print(
            f"batch {size:3d}: {made / seconds:6.1f} tokens/s generated ({made} tokens), "
            f"{arithmetic(llm, prompts, made, seconds)}{equal} of {len(prompts)} answers equal",
            flush=True,
        )


def written(llm: LLM, prompts: Sequence[Prompt], together: int, limit: int) -> tuple[list[str], int, float]:
    """The answers to prompts, so many at a time, with the tokens that were generated and the seconds that it took."""
    count, start = llm.usage.generated_tokens, time.perf_counter()
    answers = [
        text
        for row in range(0, len(prompts), together)
        for (text,) in llm.generate(prompts[row : row + together], max_new_tokens=limit)
    ]
    return answers, llm.usage.generated_tokens - count, time.perf_counter() - start


def arithmetic(llm: LLM, prompts: Sequence[Prompt], made: int, seconds: float) -> str:
    """What reading the prompts and generating so many tokens in so much time takes a model of this process."""
    if not isinstance(llm, TransformersLLM):
        return ""
    output = llm.model.get_output_embeddings().weight
    body = sum(p.numel() for p in set(llm.model.parameters())) - output.numel()
    read = sum(len(ids) for ids in llm.tokenizer([llm.render(prompt) for prompt in prompts])["input_ids"])
    operations = 2 * (body * (read + made) + output.numel() * made)
    return f"{read / seconds:7.1f} read ({read}), arithmetic {operations / seconds / 1e9:5.1f} GFLOP/s, "


if __name__ == "__main__":
    main()
