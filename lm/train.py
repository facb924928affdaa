"""Train a small Llama-architecture language model that follows the demonstration it is shown.

    python -m lm.train --output my_llm                # the bundled model again, on the bundled newsroom
    python -m lm.train --world news --output my_llm   # one for questions about the bundled news
    python -m lm.train --pairs my.jsonl --task dialogue --output my_llm --vocabulary 8000

Each training sequence is two (source, target) pairs of one style, as `mrag_rl.generation.prompts` renders them. Only
the targets are learned: the first without a demonstration, the second with one. With `--pairs`, a pair's demonstration
is one of its nearest neighbours by TF-IDF, as it will be when the model is used for retrieval. With `--world news` the
sequences are filters, search queries and answers (`lm/news_world.py`).

The command can be stopped at any moment; run it again to resume from the last checkpoint in OUTPUT.partial.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lm.arguments import HEAD_WIDTHS, check_arguments, parse_arguments
from lm.batches import Part, make_batch, total_weight, train_tokenizer
from lm.card import Facts, write_card
from lm.checkpoints import Progress, open_checkpoints
from lm.demonstrations import Demonstrations
from lm.guidance import TokenHint, token_hints
from lm.loop import Schedule, train_steps
from lm.news import NewsData
from lm.optimization import (
    backward,
    held_out_loss,
    loss_of,
    make_optimizers,
    one_thread_each,
)
from lm.sequences import Span, TrainingData
from mrag_rl.command_line import run_command
from mrag_rl.data.records import load_pairs
from mrag_rl.data.splits import group_names
from mrag_rl.data_config import DataConfig
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import translation
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import file_sha256, read_json

_FEWEST_PAIRS = 20
_HELD_OUT_BATCH = 64


def load_data(arguments: argparse.Namespace) -> TrainingData:
    """The training data that the command line names. Raises InputError."""
    if arguments.pairs:
        return _load_pairs(arguments)
    return NewsData(arguments.seed) if arguments.world == "news" else Demonstrations.of_newsroom()


def make_tokenizer(arguments: argparse.Namespace, data: TrainingData, folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in `folder`, trained and saved there the first time."""
    if (folder / "tokenizer.json").exists():
        return cast(PreTrainedTokenizerFast, PreTrainedTokenizerFast.from_pretrained(folder))
    if arguments.start:
        tokenizer = cast(PreTrainedTokenizerFast, PreTrainedTokenizerFast.from_pretrained(arguments.start))
        tokenizer.save_pretrained(folder)
        return tokenizer
    rng = np.random.default_rng([arguments.seed, 0])
    tokenizer = train_tokenizer(data.tokenizer_texts(rng), arguments.vocabulary, data.token_pattern)
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(arguments: argparse.Namespace, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A model with random weights, or with those of `--start`. Raises InputError if that is not of this kind."""
    torch.manual_seed(arguments.seed)
    if arguments.start:
        architectures = read_json(arguments.start / "config.json").get("architectures")
        if architectures != [LlamaForCausalLM.__name__]:
            raise InputError(f"--start {arguments.start} holds {architectures}; give a model that this command wrote")
        return grown(LlamaForCausalLM.from_pretrained(arguments.start, dtype=torch.float32), arguments.layers)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=arguments.width,
            intermediate_size=arguments.width * 8 // 3 // 16 * 16,
            num_hidden_layers=arguments.layers,
            num_attention_heads=arguments.width // HEAD_WIDTHS[arguments.world],
            max_position_embeddings=4 * arguments.max_tokens,
            tie_word_embeddings=True,
            # The library's 0.02 suits wide models. At this width attention then starts out uniform, and copying a fact
            # from the source was not learned in 1,250 steps, against 200 with this value.
            initializer_range=0.06,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def grown(model: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """The model with as many layers, if it has fewer: new ones in its middle, which add nothing to what it computes."""
    present = model.config.num_hidden_layers
    if present >= layers:
        return model
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    larger = LlamaForCausalLM(config)
    larger.load_state_dict(
        {name: weight for name, weight in model.state_dict().items() if not name.startswith("model.layers.")},
        strict=False,
    )
    before, new = present // 2, layers - present
    kept = [*larger.model.layers[:before], *larger.model.layers[before + new :]]
    for layer, old in zip(kept, model.model.layers, strict=True):
        layer.load_state_dict(old.state_dict())
    for layer in larger.model.layers[before : before + new]:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return larger


def make_held_out_batches(
    arguments: argparse.Namespace, data: TrainingData, tokenizer: PreTrainedTokenizerFast
) -> dict[str, list[list[Part]]]:
    """Batches of each task to measure the held-out loss on."""
    return {
        task: [
            make_batch(
                tokenizer,
                partial(data.draw_held_out, task=task),
                np.random.default_rng([arguments.seed, 1, i]),
                _HELD_OUT_BATCH,
                arguments.max_tokens,
                data.part_tokens,
            )
            for i in range(data.held_out_batches)
        ]
        for task in data.tasks
    }


def optimize(
    arguments: argparse.Namespace,
    data: TrainingData,
    tokenizer: PreTrainedTokenizerFast,
    model: LlamaForCausalLM,
    folder: Path,
) -> Progress:
    """Train the model in place, from the checkpoint in `folder` if there is one."""
    pool = one_thread_each() if data.part_tokens else None
    held_out = make_held_out_batches(arguments, data, tokenizer)
    parameters = list(model.parameters())

    token_of = cast(Callable[[str], int], tokenizer.convert_tokens_to_ids)

    def token_hints_of(text: str, spans: list[Span], starts: np.ndarray) -> list[TokenHint]:
        return token_hints(data.hints(text, spans, starts), starts, model.config, token_of)

    def step_backward(step: int) -> tuple[float, int]:
        rng = np.random.default_rng([arguments.seed, 2, step])
        # A model to start from has seen the easier sequences of the beginning
        draw = partial(data.draw, progress=1.0 if arguments.start else step / arguments.steps)
        parts = make_batch(
            tokenizer, draw, rng, arguments.batch, arguments.max_tokens, data.part_tokens, token_hints_of
        )
        total = total_weight(parts) if data.part_tokens else None
        loss_of_part = partial(loss_of, model, precision=arguments.precision, total=total)
        loss = sum(backward(parameters, parts, loss_of_part, pool))
        return loss, sum(part.ids.numel() for part in parts)

    def measure() -> dict[str, float]:
        return {task: held_out_loss(model, batches, arguments.precision) for task, batches in held_out.items()}

    schedule = Schedule(arguments.steps, arguments.learning_rate, arguments.checkpoint_every)
    optimizers = make_optimizers(model, arguments.optimizer)
    progress = train_steps(model.model, optimizers, folder, schedule, step_backward, measure)
    if pool is not None:
        pool.shutdown()
    return progress


def save_model(folder: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write the model in half precision, with its tokenizer."""
    make_config = cast(Callable[..., GenerationConfig], GenerationConfig)  # its constructor has no types
    model.generation_config = make_config(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None
    )
    cast(torch.nn.Module, model).half()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train() -> str:
    """The whole command; returns a line of JSON with the model's figures. Raises InputError."""
    arguments = parse_arguments(__doc__)
    check_arguments(arguments)
    data = load_data(arguments)
    hashes = {"sha256 of --pairs": file_sha256(arguments.pairs)} if arguments.pairs else {}
    unfinished = open_checkpoints(arguments.output, vars(arguments) | hashes)
    tokenizer = make_tokenizer(arguments, data, unfinished)
    model = make_model(arguments, tokenizer)
    threads = torch.get_num_threads()
    progress = optimize(arguments, data, tokenizer, model, unfinished)
    torch.set_num_threads(threads)

    finished = arguments.output.with_name(arguments.output.name + ".finished")
    save_model(finished, model, tokenizer)
    facts = Facts(
        tokens=int(progress.spent.tokens),
        parameters=sum(weight.numel() for weight in model.parameters()),
        vocabulary=len(tokenizer),
        width=model.config.hidden_size,
        layers=model.config.num_hidden_layers,
        minutes=progress.spent.seconds / 60,
        threads=threads,
    )
    abilities = data.describe_abilities(TransformersLLM.load(finished))
    command = f"python -m lm.train {' '.join(sys.argv[1:])}"
    write_card(finished, command, arguments, data, abilities, facts, progress)
    finished.rename(arguments.output)
    shutil.rmtree(unfinished)
    print(f"{arguments.output}: use it with --llm.name {arguments.output}", file=sys.stderr)
    _, training, *held_out = progress.losses[-1]
    loss = {"training": training, "held_out": held_out}
    return json.dumps({"output": str(arguments.output), **asdict(facts), "loss": loss})


def _load_pairs(arguments: argparse.Namespace) -> Demonstrations:
    """The pairs of `--pairs`; one group in twenty is held out. Raises InputError."""
    pairs = load_pairs(arguments.pairs)
    if len(pairs) < _FEWEST_PAIRS:
        raise InputError(
            f"{arguments.pairs}: {len(pairs)} pairs are too few to learn from; give {_FEWEST_PAIRS} or more"
        )
    task = arguments.task
    if task == "translation" and tuple(arguments.languages) != DataConfig.languages:
        task = translation(*arguments.languages)
    names = np.array(group_names(pairs, arguments.group))
    groups = np.random.default_rng([arguments.seed, 3]).permutation(np.unique(names))
    held_out = np.isin(names, groups[: max(1, len(groups) // 20)])
    return Demonstrations.of_pairs(
        [pairs[i] for i in np.flatnonzero(~held_out)],
        [pairs[i] for i in np.flatnonzero(held_out)],
        task,
        arguments.pairs.name,
    )


if __name__ == "__main__":
    sys.exit(run_command(train, lambda: "the same command resumes from the last checkpoint"))
