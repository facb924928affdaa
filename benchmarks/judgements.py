"""How much faster are Self-RAG's judgements because their prompts begin alike, and because the cache is continued?

    python -m benchmarks.judgements --pairs es-en.jsonl [--llm gemma-3-270m] [--dtype bfloat16] [--count 32]

A judgement of support shows a pair's source and target and another pair's target as the answer, after four examples in
two orders. It is read in three ways, in turn: what all prompts of a batch begin with once; every prompt whole; every
prompt whole once for each of "yes" and "no". Prints seconds, and by how much the probabilities of yes differ at most.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from mrag_rl.data import load_pairs
from mrag_rl.generation.critic import PromptedCritic
from mrag_rl.generation.decoding import Decoder
from mrag_rl.generation.prompts import SUPPORT_TASK
from mrag_rl.generation.writer import Writer
from mrag_rl.llm_config import LLMConfig
from mrag_rl.runs.models import load_llm

EXAMPLES = 2  # of each right answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--llm", default="gemma-3-270m")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    pairs = load_pairs(args.pairs)[: 2 * args.count + EXAMPLES]
    shown, judged = pairs[:EXAMPLES], pairs[EXAMPLES:]
    others = [pair.target for pair in pairs[-EXAMPLES:]]
    examples = [
        example
        for pair, other in zip(shown, others, strict=True)
        for example in (
            ((pair.source, pair.target, pair.target), True),
            ((pair.source, pair.target, other), False),
        )
    ]
    texts = [
        (pair.source, pair.target, answer.target)
        for pair, answer in zip(judged[: args.count], judged[args.count :], strict=False)
    ]
    llm = load_llm(LLMConfig(name=args.llm, dtype=args.dtype))
    critic = PromptedCritic(Writer(llm, "summarization"), {SUPPORT_TASK: examples})
    critic.yes(SUPPORT_TASK, texts[:1])
    whole = patch.object(Decoder, "_shared_tokens", lambda self, prompts: 0)
    anew = patch.object(Decoder, "continues_by_several", lambda self: False)
    expected = None
    print(f"{len(texts)} judgements, {args.llm}, {args.dtype}, {args.threads} threads")
    ways: dict[str, AbstractContextManager[Any]] = {
        "shared": nullcontext(),
        "whole": whole,
        "whole, for each word": anew,
    }
    for name, way in ways.items():
        with way:
            started = time.perf_counter()
            found = critic.yes(SUPPORT_TASK, texts)
            seconds = time.perf_counter() - started
        expected = found if expected is None else expected
        print(f"{name}: {seconds:.1f} s, differs by {np.abs(found - expected).max():.3f}")


if __name__ == "__main__":
    main()
