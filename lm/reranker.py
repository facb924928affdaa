"""Train a small cross-encoder for questions about the bundled news: it scores how well a passage answers a question.

    python -m lm.reranker --output my_reranker

It begins with the weights of the language model for questions and is trained on the split `llm` of the bundled news. A
step has groups of passages, each for one question: one with evidence for the answer and others that look like it. The
loss is the cross-entropy of the one among the others (Gao et al. 2021, "Rethink Training of BERT Rerankers in
Multi-Stage Retrieval Pipeline") plus that of each passage on its own, which also sees questions without an answer.

The command can be stopped at any moment; run it again to resume from the last checkpoint in OUTPUT.partial.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import processors
from transformers import LlamaForSequenceClassification, PreTrainedTokenizerFast

from lm.arguments import add_precision
from lm.checkpoints import Progress, open_checkpoints
from lm.loop import Schedule, train_steps
from lm.news import WORLDS
from lm.news_world import NewsWorld
from lm.optimization import backward, make_optimizers, one_thread_each
from lm.source_names import draw_new_words, rename_source_of, rename_sources
from mrag_rl.command_line import run_command
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_write_text
from mrag_rl.metrics.ranking import textbook_scores
from mrag_rl.models.bundled import NEWS_QUESTION_LLM
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.voting import Ranking

HEADING = ("title", "source", "published_at")
"""Fields above a passage in half of the groups. Without them no source can be told, so all passages pass the filter."""

_PASSAGES = 8  # of a question, in a step
_CANDIDATES = 24  # of which they are drawn
_MAX_TOKENS = 768
_RENAMED_SHARE = 0.25
_HELD_OUT = 48
_MEASURED, _MEASURED_PASSAGES = 240, 20


@dataclass(frozen=True)
class Group:
    """A question and passages. relevant: whether each has evidence for the answer; of a question with an answer, the
    first alone; of one without, none."""

    question: str
    passages: tuple[str, ...]
    relevant: tuple[bool, ...]


def draw_group(rng: np.random.Generator, world: NewsWorld) -> Group:
    """A question of a world, with a passage that has evidence for it and others, most similar to it, that have none."""
    number = int(rng.integers(len(world.queries)))
    query, evidence = world.queries[number], world.search.evidence_chunks[number]
    heading = HEADING if rng.random() < 0.5 else ()
    found = world.search.best(rng, query, _CANDIDATES, filtered=0.5 if heading else 1.0)
    others = [i for i in found if i not in evidence]
    first = [int(rng.choice(evidence))] if evidence else []
    chosen = [*first, *(others[i] for i in rng.permutation(len(others))[: _PASSAGES - len(first)])]
    new_words = draw_new_words(rng) if rng.random() < _RENAMED_SHARE else {}
    passages = tuple(rename_source_of(world.chunks[i], new_words).headed(heading) for i in chosen)
    return Group(rename_sources(query.text, new_words), passages, tuple(i in evidence for i in chosen))


def make_tokenizer(start: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a language model, for pairs: each text ends with the end of sequence, where it is scored."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(start)
    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, tokenizer.eos_token_id)]
    )
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.model_max_length = _MAX_TOKENS
    return tokenizer


def loss_of(
    model: LlamaForSequenceClassification, tokenizer: PreTrainedTokenizerFast, group: Group, precision: str
) -> torch.Tensor:
    """The loss of a group in nats; see the module."""
    inputs = tokenizer(
        [group.question] * len(group.passages),
        list(group.passages),
        truncation="longest_first",
        max_length=_MAX_TOKENS,
        padding=True,
        return_tensors="pt",
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        scores = model(**inputs).logits[:, 0].float()
    relevant = torch.tensor(group.relevant, dtype=torch.float32)
    alone = torch.nn.functional.binary_cross_entropy_with_logits(scores, relevant)
    if not any(group.relevant):
        return alone
    return alone + torch.nn.functional.cross_entropy(scores, relevant.argmax())


def optimize(
    arguments: argparse.Namespace,
    model: LlamaForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
) -> Progress:
    """Train the model in place, from the checkpoint in `folder` if there is one."""
    worlds = [NewsWorld(WORLDS * arguments.seed + i) for i in range(WORLDS)]
    held_out_world = NewsWorld(arguments.seed, "dev")
    held_out = [draw_group(np.random.default_rng([arguments.seed, 1, i]), held_out_world) for i in range(_HELD_OUT)]
    parameters = list(model.parameters())
    pool: ThreadPoolExecutor = one_thread_each()
    loss = partial(loss_of, model, tokenizer, precision=arguments.precision)

    def step_backward(step: int) -> tuple[float, int]:
        rng = np.random.default_rng([arguments.seed, 2, step])
        groups = [draw_group(rng, worlds[int(rng.integers(WORLDS))]) for _ in range(arguments.batch)]
        mean = sum(backward(parameters, groups, lambda group: loss(group) / len(groups), pool))
        return mean, sum(len(group.passages) for group in groups)

    def measure() -> dict[str, float]:
        def without_gradients(group: Group) -> float:
            with torch.inference_mode():
                return loss(group).item()

        return {"held_out": float(np.mean(list(pool.map(without_gradients, held_out))))}

    schedule = Schedule(arguments.steps, arguments.learning_rate, arguments.checkpoint_every)
    progress = train_steps(model, make_optimizers(model, "muon"), folder, schedule, step_backward, measure)
    pool.shutdown()
    return progress


def measure_ranking(reranker: CrossEncoder, world: NewsWorld, heading: Sequence[str]) -> dict[str, float]:
    """Hits at 4 and MRR at 10 in percent of the best chunks by words, under the questions' filters, before and after
    reranking."""
    rng = np.random.default_rng(0)
    numbers = [i for i, evidence in enumerate(world.search.evidence_chunks) if evidence][:_MEASURED]
    found = np.full((len(numbers), _MEASURED_PASSAGES), -1)
    for row, number in zip(found, numbers, strict=True):
        best = world.search.best(rng, world.queries[number], _MEASURED_PASSAGES, filtered=1.0)
        row[: len(best)] = best
    before = Ranking(found, np.where(found < 0, -np.inf, -np.arange(_MEASURED_PASSAGES)))
    texts = [chunk.headed(heading) for chunk in world.chunks]
    questions = [world.queries[number].text for number in numbers]
    after = reranker.rerank(questions, texts, before, _MEASURED_PASSAGES)
    relevant = [world.search.evidence_chunks[number] for number in numbers]
    scores: dict[str, float] = {}
    for name, ranking in (("before", before), ("after", after)):
        values = textbook_scores(ranking.indices[:, :10], relevant).values
        scores |= {f"{name}, {metric}": 100 * float(values[metric].mean()) for metric in ("hits@4", "mrr@10")}
    return scores


def parse_arguments() -> argparse.Namespace:
    """The command line. Raises InputError if the output exists or a number is below 1."""
    parser = argparse.ArgumentParser(
        prog="python -m lm.reranker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--steps", type=int, default=1200, help="optimizer steps (%(default)s)")
    parser.add_argument("--batch", type=int, default=8, help=f"questions in a step, {_PASSAGES} passages each")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="peak learning rate (%(default)s)")
    add_precision(parser)
    parser.add_argument("--checkpoint-every", type=int, default=200, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the groups and of the output (%(default)s)")
    arguments = parser.parse_args()
    for name in ("steps", "batch", "checkpoint_every"):
        if getattr(arguments, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; give 1 or more")
    if arguments.output.exists():
        raise InputError(f"{arguments.output} exists; remove it or give another --output")
    return arguments


def train() -> str:
    """The whole command; returns a line of JSON with the figures of its card. Raises InputError."""
    arguments = parse_arguments()
    unfinished = open_checkpoints(arguments.output, vars(arguments))
    torch.manual_seed(arguments.seed)
    tokenizer = make_tokenizer(NEWS_QUESTION_LLM)
    model = LlamaForSequenceClassification.from_pretrained(NEWS_QUESTION_LLM, num_labels=1, dtype=torch.float32)
    threads = torch.get_num_threads()
    progress = optimize(arguments, model, tokenizer, unfinished)
    torch.set_num_threads(threads)

    finished = arguments.output.with_name(arguments.output.name + ".finished")
    model.half().save_pretrained(finished)
    tokenizer.save_pretrained(finished)
    reranker, world = CrossEncoder.load(str(finished)), NewsWorld(arguments.seed, "dev", _MEASURED * 2)
    figures = {
        name: measure_ranking(reranker, world, heading) for name, heading in (("with", HEADING), ("without", ()))
    }
    atomic_write_text(finished / "README.md", _card(arguments, model, progress, threads, figures))
    finished.rename(arguments.output)
    shutil.rmtree(unfinished)
    return json.dumps({"output": str(arguments.output), **figures})


def _card(
    arguments: argparse.Namespace,
    model: LlamaForSequenceClassification,
    progress: Progress,
    threads: int,
    figures: dict[str, dict[str, float]],
) -> str:
    rows = [
        f"| {heading} heading | {' | '.join(f'{value:.1f}' for value in scores.values())} |"
        for heading, scores in figures.items()
    ]
    losses = [f"| {int(step)} | {loss:.4f} | {held_out:.4f} |" for step, loss, held_out in progress.losses]
    return f"""# Small reranker

A cross-encoder for questions about the bundled news: a Llama-architecture decoder that reads a question and a passage
and scores the passage at its end. Apache-2.0. The command that made it:

    python -m lm.reranker {" ".join(sys.argv[1:])}

- Start: the weights of the bundled language model for questions (`mrag_rl/data/question_llm`)
- Data: the bundled news, split `llm`, {WORLDS} seeds, sources renamed in a quarter;
  {progress.spent.tokens:,.0f} passages in {arguments.steps:,} steps of {arguments.batch} questions,
  seed {arguments.seed}
- Size: {sum(weight.numel() for weight in model.parameters()):,} parameters, stored as float16
- Training time: {progress.spent.seconds / 60:.0f} minutes on {threads} threads, {arguments.precision} matrix products

Measured on the {_MEASURED_PASSAGES} chunks most similar by TF-IDF, with noise, that pass the question's filter,
before and after reranking, for {_MEASURED} questions of the split `dev`, in percent; the heading has title, source and
day of a passage:

| | {" | ".join(next(iter(figures.values())))} |
|---|{"---|" * len(next(iter(figures.values())))}
{chr(10).join(rows)}

What it cannot do: It knows nothing but the bundled news. For other articles, name another model.

| step | training loss | held-out loss |
|---|---|---|
{chr(10).join(losses)}

Losses are means over questions in nats; the held-out one is of {_HELD_OUT} questions of the split `dev`.
"""


if __name__ == "__main__":
    sys.exit(run_command(train, lambda: "the same command resumes from the last checkpoint"))
