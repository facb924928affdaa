"""How fast does a language model answer at several batch sizes, and are the answers the same?

    python -m benchmarks.batch_sizes --pairs FILE.jsonl [--llm gemma-3-270m] [--dtype float32] [--sizes 1 8 32]

The prompts are translations with one memory each: 32 pairs of the file, each with another pair of it. Prints seconds to
load and to the first answer, then for each batch size the generated tokens per second (the time to read the prompts
included), the tokens read per second, and how many answers equal those of the first batch size; at the end the peak
memory. `arithmetic` is what the generated and the read tokens take in multiplications and additions, per second.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import torch

from mrag_rl.data import load_pairs
from mrag_rl.generation import Prompt
from mrag_rl.generation.prompts import translation
from mrag_rl.generation.transformers_llm import TransformersLLM


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--languages", nargs=2, default=("German", "English"))
    parser.add_argument("--llm", default="gemma-3-270m")
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
        for query, memory in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    started = time.perf_counter()
    llm = TransformersLLM.load(arguments.llm, dtype=arguments.dtype)
    loaded = time.perf_counter()
    llm.generate(prompts[:1], max_new_tokens=arguments.max_new_tokens)
    print(f"loaded in {loaded - started:.1f} s, first answer after {time.perf_counter() - loaded:.1f} s more")

    output = llm.model.get_output_embeddings().weight
    body = sum(p.numel() for p in set(llm.model.parameters())) - output.numel()
    read = sum(len(ids) for ids in llm.tokenizer([llm.render(prompt) for prompt in prompts])["input_ids"])
    first: list[str] = []
    for size in arguments.sizes:
        count, start = llm.usage.generated_tokens, time.perf_counter()
        answers = [
            text
            for row in range(0, len(prompts), size)
            for (text,) in llm.generate(prompts[row : row + size], max_new_tokens=arguments.max_new_tokens)
        ]
        seconds, made = time.perf_counter() - start, llm.usage.generated_tokens - count
        first = first or answers
        equal = sum(a == b for a, b in zip(answers, first, strict=True))
        operations = 2 * (body * (read + made) + output.numel() * made)
        print(
            f"batch {size:3d}: {made / seconds:6.1f} tokens/s generated ({made} tokens), {read / seconds:7.1f} read "
            f"({read}), arithmetic {operations / seconds / 1e9:5.1f} GFLOP/s, {equal} of {len(prompts)} answers equal"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
