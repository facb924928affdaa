"""Train a small Llama-architecture language model that follows the demonstration it is shown.

    python lm/train.py --output my_llm                # the bundled model again, on the bundled newsroom
    python lm/train.py --world news --output my_llm   # one for questions about the bundled news
    python lm/train.py --pairs my.jsonl --task dialogue --output my_llm --vocabulary 8000

Each training sequence is two (source, target) pairs of one style in the form that `mrag_rl.generation.prompts` renders,
and only the targets are learned: the first without a demonstration, the second with one. With `--pairs`, a pair's
demonstration is one of its nearest neighbours by TF-IDF, as it will be when the model is used for retrieval. With
`--world news` the sequences are filters, search queries and answers (`news_sequences.py`).

Stopped at any moment, the same command goes on from the last checkpoint in OUTPUT.partial.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from tqdm import tqdm
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lm.news import NEWS_DATA, NEWS_LIMITS, News
from lm.training import (
    Span,
    backward,
    held_out_loss,
    learning_rate,
    load_checkpoint,
    make_batch,
    make_optimizers,
    save_checkpoint,
    train_tokenizer,
    weight_of,
    worker_threads,
)
from mrag_rl.command_line import run_command
from mrag_rl.config import DataConfig
from mrag_rl.data.records import TextPair, load_pairs
from mrag_rl.data.splits import group_names
from mrag_rl.data.synthetic.newsroom import TASKS, draw_shots
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import Prompt, render, translation
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import atomic_write_text, file_sha256, read_json, write_json

Shots = list[tuple[str, str]]
Sampler = Callable[[np.random.Generator], tuple[str, Shots]]
"""Draws two pairs, and says of what task."""

# What is trained for each bundled world where the command does not say otherwise.
DEFAULTS = {
    "newsroom": {
        "steps": 1200, "batch": 32, "width": 192, "vocabulary": 3072, "max_tokens": 512, "learning_rate": 1.5e-3,
        "optimizer": "adamw",
    },
    "news": {
        "steps": 3500, "batch": 8, "width": 256, "vocabulary": 4096, "max_tokens": 1536, "learning_rate": 1.5e-3,
        "optimizer": "muon",
    },
}  # fmt: skip
HEAD_WIDTHS = {"newsroom": 32, "news": 64}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--pairs",
        type=Path,
        help="JSONL of your own pairs, none of which you test on later; without it the bundled world is used",
    )
    parser.add_argument(
        "--world",
        choices=tuple(DEFAULTS),
        default="newsroom",
        help="what to learn without --pairs, and whose defaults to use (%(default)s)",
    )
    parser.add_argument("--task", choices=TASKS, help="the task of --pairs")
    parser.add_argument(
        "--languages",
        nargs=2,
        metavar=("FROM", "TO"),
        default=DataConfig.languages,
        help="of the task translation, by their English names, as data.languages of the runs to come (%(default)s)",
    )
    parser.add_argument(
        "--group",
        help="regular expression on the ids of --pairs whose first group names the event or dialogue, which is held "
        "out as a whole or not at all, as data.group of a run: '^([^.]+)'",
    )
    for name, kind, meaning in (
        ("steps", int, "optimizer steps"),
        ("batch", int, "sequences a step"),
        ("width", int, "hidden size"),
        ("vocabulary", int, "most tokens in the vocabulary"),
        ("max_tokens", int, "longer sequences are left out"),
        ("learning_rate", float, "peak, reached after 4%% of the steps"),
    ):
        default = f"{DEFAULTS['newsroom'][name]}; news: {DEFAULTS['news'][name]}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"{meaning} ({default})")
    parser.add_argument(
        "--optimizer",
        choices=("adamw", "muon"),
        help="muon takes fewer steps and torch 2.9 "
        f"({DEFAULTS['newsroom']['optimizer']}; news: {DEFAULTS['news']['optimizer']})",
    )
    parser.add_argument("--layers", type=int, default=4, help="decoder layers (%(default)s)")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="bfloat16",
        help="of matrix products; float32 where the processor has no bfloat16 (%(default)s)",
    )
    parser.add_argument("--checkpoint-every", type=int, default=250, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the sequences (%(default)s)")
    arguments = parser.parse_args()
    for name, value in DEFAULTS[arguments.world].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


def world_shots(rng: np.random.Generator) -> tuple[str, Shots]:
    """Two pairs of the bundled world in one random style, and their task."""
    task = TASKS[int(rng.integers(len(TASKS)))]
    return task, draw_shots(rng, task, 2)


def neighbour_shots(queries: list[TextPair], shown: list[TextPair], task: str) -> Sampler:
    """A sampler of one of `queries` behind one of its eight nearest neighbours among `shown`, in TF-IDF space."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neighbors import NearestNeighbors

    vectorizer = TfidfVectorizer(sublinear_tf=True).fit([pair.source for pair in shown])
    vectors = vectorizer.transform([pair.source for pair in shown])
    neighbours = NearestNeighbors(n_neighbors=min(9, len(shown)), metric="cosine").fit(vectors)
    found = neighbours.kneighbors(vectorizer.transform([pair.source for pair in queries]), return_distance=False)
    nearest = [[i for i in row if shown[i].id != query.id][:8] for query, row in zip(queries, found, strict=True)]

    def draw(rng: np.random.Generator) -> tuple[str, Shots]:
        query = int(rng.integers(len(queries)))
        demonstration = shown[int(rng.choice(nearest[query]))]
        return task, [(pair.source, pair.target) for pair in (demonstration, queries[query])]

    return draw


class Demonstrations:
    """What is learned: pairs, each with and without a demonstration."""

    tasks = ("held-out",)
    held_out_batches = 4
    pieces: str | None = None
    part_tokens: int | None = None

    def __init__(self, shots: Sampler, shots_held_out: Sampler) -> None:
        self._shots, self._shots_held_out = shots, shots_held_out

    def draw(self, rng: np.random.Generator, done: float) -> tuple[str, list[Span]]:
        """A sequence; `done`, the share of the training that is over, does not matter here."""
        return sequence_text(*self._shots(rng))

    def draw_held_out(self, rng: np.random.Generator, task: str) -> tuple[str, list[Span]]:
        return sequence_text(*self._shots_held_out(rng))

    def texts(self, rng: np.random.Generator) -> list[str]:
        """What to train a tokenizer on."""
        return [sequence_text(*self._shots(rng))[0] for _ in range(20_000)]

    def abilities(self, llm: TransformersLLM) -> str:
        """For the card."""
        return (
            "What it can do: given a demonstration (source, target) and a new source, write the new target in the\n"
            "demonstration's style; without a demonstration, write a target in some style."
        )


def sequence_text(task: str, shots: Shots) -> tuple[str, list[Span]]:
    """The sequence as the model will see it, and the character spans of its targets, each with what ends it."""
    text, spans = "", []
    for i in range(len(shots)):
        prompt = render(Prompt(task, shots[i][0], tuple(shots[:i])))
        text = f"{prompt} {shots[i][1]}"
        spans.append((len(prompt), len(text) + 1, 1.0))  # one more character: the newline, or the end of the sequence
    return text, spans


def write_card(
    output: Path,
    arguments: argparse.Namespace,
    data: str,
    abilities: str,
    limits: str,
    facts: Mapping[str, float],
    heads: tuple[str, ...],
    losses: list[list[float]],
) -> None:
    rows = [[str(int(step)), *(f"{loss:.4f}" for loss in some)] for step, *some in losses]
    table = "\n".join(
        f"| {' | '.join(row)} |" for row in (["step", "training loss", *heads], ["---"] * len(rows[0]), *rows)
    )
    atomic_write_text(
        output / "README.md",
        f"""# Small language model

A Llama-architecture decoder trained from scratch. Apache-2.0. The command that made it:

    python lm/train.py {" ".join(sys.argv[1:])}

- Data: {data}; {facts["tokens"]:,} tokens in {arguments.steps:,} steps of {arguments.batch} sequences,
  seed {arguments.seed}
- Size: {facts["parameters"]:,} parameters ({arguments.width} wide, {arguments.layers} layers),
  {facts["vocabulary"]:,} tokens, stored as float16
- Training time: {facts["minutes"]:.0f} minutes on {facts["threads"]} threads, {arguments.precision} matrix products,
  {arguments.optimizer}, torch {torch.__version__.split("+")[0]}, transformers {transformers.__version__}

{abilities}

What it cannot do: {limits}

{table}

Losses are mean cross-entropy in nats per target token. Held out are, of the newsroom, sequences of another seed; of the
news, articles and questions of another split; of pairs, one group in twenty, which nothing was trained on.
""",
    )


def pairs_lesson(arguments: argparse.Namespace, task: str) -> Demonstrations:
    """The pairs of `--pairs`, one group in twenty held out. Raises InputError."""
    pairs = load_pairs(arguments.pairs)
    if len(pairs) < 20:
        raise InputError(f"{arguments.pairs}: {len(pairs)} pairs are too few to learn from; give 20 or more")
    names = np.array(group_names(pairs, arguments.group))
    groups = np.random.default_rng([arguments.seed, 3]).permutation(np.unique(names))
    out = np.isin(names, groups[: max(1, len(groups) // 20)])
    held, kept = ([pairs[i] for i in np.flatnonzero(part)] for part in (out, ~out))
    return Demonstrations(neighbour_shots(kept, kept, task), neighbour_shots(held, kept, task))


def main() -> str:
    arguments = parse_arguments()
    if arguments.pairs and arguments.world == "news":
        raise InputError("--world news needs no --pairs; leave out one of them")
    if (arguments.pairs is None) != (arguments.task is None):
        raise InputError("--pairs and --task go together; give both, or neither for the bundled world")
    for name in ("steps", "batch", "width", "layers", "vocabulary", "max_tokens", "checkpoint_every"):
        if getattr(arguments, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; give 1 or more")
    head_width = HEAD_WIDTHS[arguments.world]
    if arguments.width % head_width:
        raise InputError(f"--width is {arguments.width}; give a multiple of {head_width}, the width of a head")
    if arguments.output.exists():
        raise InputError(f"{arguments.output} exists; remove it or give another --output")
    task = arguments.task
    if task == "translation" and tuple(arguments.languages) != DataConfig.languages:
        task = translation(*arguments.languages)
    lesson: News | Demonstrations
    if arguments.pairs:
        lesson = pairs_lesson(arguments, task)
        data = f"`{arguments.pairs.name}` (task: {task})"
        limits = "It knows nothing beyond the pairs it was trained on and follows no instructions."
    elif arguments.world == "news":
        lesson, data, limits = News(arguments.seed), NEWS_DATA, NEWS_LIMITS
    else:
        lesson, data = Demonstrations(world_shots, world_shots), "the bundled world, all three tasks"
        limits = (
            "It knows nothing but the bundled newsroom: its people, places, four house styles, German glossaries and\n"
            "registers. It follows no instructions, answers no questions, and writes nonsense on any other text."
        )
    settings = {key: str(value) for key, value in sorted(vars(arguments).items())}
    if arguments.pairs:
        settings["sha256 of --pairs"] = file_sha256(arguments.pairs)
    unfinished = arguments.output.with_name(arguments.output.name + ".partial")
    unfinished.mkdir(parents=True, exist_ok=True)
    if (unfinished / "settings.json").exists() and read_json(unfinished / "settings.json") != settings:
        raise InputError(f"{unfinished} was begun with other settings; use the same, or remove it to start anew")
    write_json(unfinished / "settings.json", settings)

    rng = np.random.default_rng([arguments.seed, 0])
    if (unfinished / "tokenizer.json").exists():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(unfinished)
    else:
        tokenizer = train_tokenizer(lesson.texts(rng), arguments.vocabulary, lesson.pieces)
        tokenizer.save_pretrained(unfinished)
    torch.manual_seed(arguments.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=arguments.width,
            intermediate_size=arguments.width * 8 // 3 // 16 * 16,
            num_hidden_layers=arguments.layers,
            num_attention_heads=arguments.width // head_width,
            max_position_embeddings=4 * arguments.max_tokens,
            tie_word_embeddings=True,
            # The library's 0.02 suits wide models: at this width attention starts out uniform, and copying a fact from
            # the source was not learned in 1,250 steps, against 200 with this.
            initializer_range=0.06,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    optimizers = make_optimizers(model, arguments.optimizer)
    first, spent = 0, {"tokens": 0.0, "seconds": 0.0}
    losses: list[list[float]] = []
    if (unfinished / "state.json").exists():
        first, losses, spent = load_checkpoint(unfinished, model, optimizers)
    threads = torch.get_num_threads()
    pool = worker_threads() if lesson.part_tokens else None
    held_out = {
        name: [
            make_batch(
                tokenizer,
                partial(lesson.draw_held_out, task=name),
                np.random.default_rng([arguments.seed, 1, i]),
                64,
                arguments.max_tokens,
                lesson.part_tokens,
            )
            for i in range(lesson.held_out_batches)
        ]
        for name in lesson.tasks
    }

    started, running = time.monotonic() - spent["seconds"], []
    progress = tqdm(range(first, arguments.steps), initial=first, total=arguments.steps, unit="step")
    for step in progress:
        # The batch is a function of (seed, step), so a resumed run sees what the uninterrupted one would have seen.
        batch_rng = np.random.default_rng([arguments.seed, 2, step])
        draw = partial(lesson.draw, done=step / arguments.steps)
        parts = make_batch(tokenizer, draw, batch_rng, arguments.batch, arguments.max_tokens, lesson.part_tokens)
        rate = learning_rate(step, arguments.steps, arguments.learning_rate)
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = rate * group["scale"]
        total = weight_of(parts) if lesson.part_tokens else None
        loss = sum(backward(model, parts, arguments.precision, total, pool))
        spent["tokens"] += sum(part.ids.numel() for part in parts)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        running.append(loss)
        if (step + 1) % arguments.checkpoint_every == 0 or step + 1 == arguments.steps:
            with torch.inference_mode():
                dev = [held_out_loss(model, batches, arguments.precision) for batches in held_out.values()]
            losses.append([step + 1, float(np.mean(running)), *dev])
            running = []
            spent["seconds"] = time.monotonic() - started
            save_checkpoint(unfinished, model, optimizers, step + 1, losses, spent)
            shown = {task.replace("-", "_"): f"{value:.4f}" for task, value in zip(held_out, dev, strict=True)}
            progress.set_postfix(train=f"{losses[-1][1]:.4f}", **shown)

    final = arguments.output.with_name(arguments.output.name + ".finished")
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None
    )
    model.half().save_pretrained(final)
    tokenizer.save_pretrained(final)
    facts = {
        "tokens": int(spent["tokens"]),
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": len(tokenizer),
        "minutes": spent["seconds"] / 60,
        "threads": threads,
    }
    if pool is not None:
        pool.shutdown()
    torch.set_num_threads(threads)
    heads = tuple(f"{name} loss" for name in lesson.tasks)
    abilities = lesson.abilities(TransformersLLM.load(final))
    write_card(final, arguments, data, abilities, limits, facts, heads, losses)
    final.rename(arguments.output)
    shutil.rmtree(unfinished)
    return json.dumps({"output": str(arguments.output), **facts, "loss": losses[-1][1:]})


if __name__ == "__main__":
    sys.exit(run_command(main, lambda: "the same command goes on from the last checkpoint"))
