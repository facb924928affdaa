"""How much faster is our decoding loop than transformers' `generate`, and than one prompt at a time?

    python -m benchmarks.generation [--model FOLDER] [--prompts 64] [--temperature 1.0] [--dtype float32] [--threads 2]

The prompts are the bundled newsroom's summarization prompts with one memory each, or none: with `--samples 9
--demonstrations 0` they are the call that draws Agent-R's candidates. All three ways get the same model, the same
random numbers and the same token budget per batch; `generate` samples in a LogitsProcessor. Seconds are processor time,
which other programs on the machine disturb less than wall-clock time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.generation import Prompt, render
from mrag_rl.generation.sampling import row_key, sample_tokens
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models.bundled import NEWSROOM_LLM


class OurSampling(LogitsProcessor):
    """Our sampling for `model.generate`, which then decodes greedily."""

    def __init__(self, keys: np.ndarray, start: int, temperature: float) -> None:
        self.keys, self.start, self.temperature = keys, start, temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.temperature == 0:
            return scores
        step = input_ids.shape[1] - self.start
        drawn = sample_tokens(scores, self.temperature, self.keys, step)
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)


def library_generate(
    llm: TransformersLLM, prompts: list[Prompt], samples: int, temperature: float, max_new_tokens: int
) -> list[list[str]]:
    """The texts of `llm.generate`, by `model.generate` on sorted, left-padded batches of the same token budget."""
    tokenizer = llm.tokenizer
    model: Any = llm.model  # The type of all models has no `generate`, which decoder-only ones have
    tokenizer.padding_side = "left"
    stops = [i for i in range(len(tokenizer)) if "\n" in tokenizer.decode([i])] + [tokenizer.eos_token_id]
    texts = [render(prompt) for prompt in prompts for _ in range(samples)]
    keys = np.array([row_key(0, text, i % samples) for i, text in enumerate(texts)], dtype=np.uint64)
    lengths = [len(ids) for ids in tokenizer(texts)["input_ids"]]
    order = sorted(range(len(texts)), key=lambda i: -lengths[i])
    answers = [""] * len(texts)
    while order:
        size = max(1, llm.batch_tokens // (lengths[order[0]] + max_new_tokens))
        batch, order = order[:size], order[size:]
        inputs = tokenizer([texts[i] for i in batch], return_tensors="pt", padding=True, return_token_type_ids=False)
        width = inputs["input_ids"].shape[1]
        out = model.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            eos_token_id=stops,
            pad_token_id=tokenizer.eos_token_id,
            logits_processor=LogitsProcessorList([OurSampling(keys[batch], width, temperature)]),
        )
        for i, text in zip(batch, tokenizer.batch_decode(out[:, width:], skip_special_tokens=True), strict=True):
            answers[i] = text.split("\n")[0].strip()
    return [answers[i : i + samples] for i in range(0, len(answers), samples)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(NEWSROOM_LLM))
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--demonstrations", type=int, choices=(0, 1), default=1)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2, help="runs of each way, in turn; the fastest counts")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    pairs = make_newsroom("summarization", seed=0, database=args.prompts, train=args.prompts, dev=1, test=1)
    prompts = [
        Prompt("summarization", pair.source, ((memory.source, memory.target),)[: args.demonstrations])
        for pair, memory in zip(pairs.train, pairs.database, strict=True)
    ]
    llm = TransformersLLM.load(args.model, dtype=args.dtype, batch_tokens=args.batch_tokens)
    generate = partial(
        llm.generate, samples=args.samples, temperature=args.temperature, max_new_tokens=args.max_new_tokens
    )
    few = prompts[: max(1, len(prompts) // 8)]
    ways: dict[str, Callable[[], list[list[str]]]] = {
        "ours": lambda: generate(prompts),
        "model.generate": lambda: library_generate(llm, prompts, args.samples, args.temperature, args.max_new_tokens),
        "one at a time": lambda: [generate([prompt])[0] for prompt in few],
    }
    generate(few)
    seconds = dict.fromkeys(ways, float("inf"))
    texts: dict[str, list[list[str]]] = {}
    tokens = 0
    for _ in range(args.repeats):
        for name, way in ways.items():
            before, started = llm.usage.generated_tokens, time.process_time()
            texts[name] = way()
            seconds[name] = min(seconds[name], time.process_time() - started)
            if name == "ours":
                tokens = llm.usage.generated_tokens - before
    per_prompt = {name: seconds[name] / len(texts[name]) for name in ways}
    print(
        f"{args.prompts} prompts x {args.samples}, {tokens / args.prompts / args.samples:.1f} tokens each, {args.dtype}"
    )
    print("| | prompts/s | tokens/s | ours is faster by | same texts |")
    print("|---|---|---|---|---|")
    for name in ways:
        same = np.mean([a == b for a, b in zip(texts[name], texts["ours"], strict=False)])
        rate = 1 / per_prompt[name]
        print(
            f"| {name} | {rate:.1f} | {rate * tokens / args.prompts:.0f} "
            f"| {per_prompt[name] / per_prompt['ours']:.2f} | {same:.3f} |"
        )


if __name__ == "__main__":
    main()
