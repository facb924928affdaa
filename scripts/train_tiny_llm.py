"""Train a small Llama-architecture language model that follows the demonstration it is shown.

    python scripts/train_tiny_llm.py --output my_llm                # the bundled model again, on the bundled world
    python scripts/train_tiny_llm.py --pairs my.jsonl --task dialogue --output my_llm --vocabulary 8000

Each training sequence is two (source, target) pairs of one style in the form that `mrag_rl.generation.prompts` renders,
and only the targets are learned: the first without a demonstration, the second with one. With `--pairs`, a pair's
demonstration is one of its nearest neighbours by TF-IDF, as it will be when the model is used for retrieval.

Stopped at any moment, the same command goes on from the last checkpoint in OUTPUT.partial.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mrag_rl.config import DataConfig
from mrag_rl.data.records import TextPair, load_pairs
from mrag_rl.data.splits import group_names
from mrag_rl.data.world import TASKS, draw_shots
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import Prompt, render, translation
from mrag_rl.io import atomic_write_text, describe_os_error, file_sha256, read_json, write_json

Shots = list[tuple[str, str]]

MOST_MISSES = 2000  # sequences that are too long, one after another
HEAD_WIDTH = 32


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--pairs",
        type=Path,
        help="JSONL of your own pairs, none of which you test on later; without it the bundled world is used",
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
    parser.add_argument("--steps", type=int, default=1200, help="optimizer steps (%(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="sequences a step (%(default)s)")
    parser.add_argument("--width", type=int, default=192, help="hidden size (%(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="decoder layers (%(default)s)")
    parser.add_argument("--vocabulary", type=int, default=3072, help="most tokens in the vocabulary (%(default)s)")
    parser.add_argument("--max-tokens", type=int, default=512, help="longer sequences are left out (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1.5e-3, help="peak, at 4%% of the steps (%(default)s)")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="bfloat16",
        help="of matrix products; float32 where the processor has no bfloat16 (%(default)s)",
    )
    parser.add_argument("--checkpoint-every", type=int, default=250, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the sequences (%(default)s)")
    return parser.parse_args()


def world_shots(rng: np.random.Generator) -> tuple[str, Shots]:
    """Two pairs of the bundled world in one random style, and their task."""
    task = TASKS[int(rng.integers(len(TASKS)))]
    return task, draw_shots(rng, task, 2)


def neighbour_shots(
    queries: list[TextPair], shown: list[TextPair], task: str
) -> Callable[[np.random.Generator], tuple[str, Shots]]:
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


def sequence_text(task: str, shots: Shots) -> tuple[str, list[tuple[int, int]]]:
    """The sequence as the model will see it, and the character spans of its targets, each with what ends it."""
    text, spans = "", []
    for i in range(len(shots)):
        prompt = render(Prompt(task, shots[i][0], tuple(shots[:i])))
        text = f"{prompt} {shots[i][1]}"
        spans.append((len(prompt), len(text) + 1))  # one more character: the newline, or the end of the sequence
    return text, spans


def train_tokenizer(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, so that any text can be written."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def make_batch(
    tokenizer: PreTrainedTokenizerFast,
    draw: Callable[[np.random.Generator], tuple[str, Shots]],
    rng: np.random.Generator,
    size: int,
    max_tokens: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (B, T) and labels (B, T), -100 wherever nothing is to be learned.

    Sequences of `max_tokens` or more are drawn again. Raises InputError where it is always so.
    """
    rows: list[tuple[list[int], list[int]]] = []
    tried = 0
    while len(rows) < size:
        if not rows and tried >= MOST_MISSES:
            raise InputError(
                f"of {tried} sequences in a row none has fewer than {max_tokens} tokens; "
                "raise --max-tokens or --vocabulary, or shorten the texts"
            )
        tried += size - len(rows)
        drawn = [sequence_text(*draw(rng)) for _ in range(size - len(rows))]
        for encoding, (_, spans) in zip(
            tokenizer.backend_tokenizer.encode_batch([text for text, _ in drawn]), drawn, strict=True
        ):
            if len(encoding.ids) >= max_tokens:
                continue
            starts = np.array([start for start, _ in encoding.offsets])
            learned = np.zeros(len(starts), dtype=bool)
            for first, last in spans:
                learned |= (starts >= first) & (starts < last)
            ids = [*encoding.ids, tokenizer.eos_token_id]
            labels = [*np.where(learned, encoding.ids, -100).tolist(), tokenizer.eos_token_id]
            rows.append((ids, labels))
    longest = max(len(ids) for ids, _ in rows)
    ids_ = torch.tensor([ids + [tokenizer.pad_token_id] * (longest - len(ids)) for ids, _ in rows])
    labels_ = torch.tensor([labels + [-100] * (longest - len(labels)) for _, labels in rows])
    return ids_, labels_


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up over 4% of the steps, then a cosine to zero."""
    warm_up = max(1, steps // 25)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def loss_of(model: LlamaForCausalLM, ids: torch.Tensor, labels: torch.Tensor, precision: str) -> torch.Tensor:
    """Mean cross-entropy in nats over the labelled tokens. Only their positions reach the vocabulary projection."""
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        hidden = model.model(ids).last_hidden_state[:, :-1]
        wanted = labels[:, 1:]
        chosen = wanted != -100
        return torch.nn.functional.cross_entropy(model.lm_head(hidden[chosen]).float(), wanted[chosen])


def save_checkpoint(
    folder: Path,
    model: LlamaForCausalLM,
    optimizer: torch.optim.Optimizer,
    step: int,
    losses: list[list[float]],
    spent: dict[str, float],
) -> None:
    """Write the checkpoint of `step` beside the last one, then drop the last one."""
    tensors = {f"model.{name}": value for name, value in model.model.state_dict().items()}
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value).clone() for name, value in state.items()}
    save_file(tensors, folder / f"step-{step}.safetensors")
    previous = read_json(folder / "state.json")["step"] if (folder / "state.json").exists() else None
    write_json(folder / "state.json", {"step": step, "losses": losses, "spent": spent})
    if previous is not None and previous != step:
        (folder / f"step-{previous}.safetensors").unlink(missing_ok=True)


def load_checkpoint(
    folder: Path, model: LlamaForCausalLM, optimizer: torch.optim.Optimizer
) -> tuple[int, list[list[float]], dict[str, float]]:
    state = read_json(folder / "state.json")
    tensors = load_file(folder / f"step-{state['step']}.safetensors")
    model.model.load_state_dict({name[6:]: value for name, value in tensors.items() if name.startswith("model.")})
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = value
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return state["step"], state["losses"], state["spent"]


def write_card(
    output: Path, arguments: argparse.Namespace, task: str, facts: dict[str, object], losses: list[list[float]]
) -> None:
    data = f"`{arguments.pairs.name}` (task: {task})" if arguments.pairs else "the bundled world, all three tasks"
    table = "\n".join(f"| {int(step)} | {train:.4f} | {held_out:.4f} |" for step, train, held_out in losses)
    limits = (
        "It knows nothing but the bundled newsroom: its people, places, four house styles, German glossaries and\n"
        "registers. It follows no instructions, answers no questions, and writes nonsense on any other text."
        if not arguments.pairs
        else "It knows nothing beyond the pairs it was trained on and follows no instructions."
    )
    atomic_write_text(
        output / "README.md",
        f"""# Small language model

A Llama-architecture decoder trained from scratch. Apache-2.0. The command that made it:

    python scripts/train_tiny_llm.py {" ".join(sys.argv[1:])}

- Data: {data}; {facts["tokens"]:,} tokens in {arguments.steps:,} steps of {arguments.batch} sequences,
  seed {arguments.seed}
- Size: {facts["parameters"]:,} parameters ({arguments.width} wide, {arguments.layers} layers),
  {facts["vocabulary"]:,} tokens, stored as float16
- Training time: {facts["minutes"]:.0f} minutes on {facts["threads"]} threads, {arguments.precision} matrix products,
  torch {torch.__version__.split("+")[0]}, transformers {transformers.__version__}

What it can do: given a demonstration (source, target) and a new source, write the new target in the demonstration's
style; without a demonstration, write a target in some style.

What it cannot do: {limits}

| step | training loss | held-out loss |
|---|---|---|
{table}

Losses are mean cross-entropy in nats per target token. Held out are, of the bundled world, sequences of another seed;
of pairs, one group in twenty, which nothing was trained on.
""",
    )


def main() -> None:
    arguments = parse_arguments()
    if (arguments.pairs is None) != (arguments.task is None):
        raise InputError("--pairs and --task go together; give both, or neither for the bundled world")
    for name in ("steps", "batch", "width", "layers", "vocabulary", "max_tokens", "checkpoint_every"):
        if getattr(arguments, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; give 1 or more")
    if arguments.width % HEAD_WIDTH:
        raise InputError(f"--width is {arguments.width}; give a multiple of {HEAD_WIDTH}, the width of a head")
    if arguments.output.exists():
        raise InputError(f"{arguments.output} exists; remove it or give another --output")
    task = arguments.task
    if task == "translation" and tuple(arguments.languages) != DataConfig.languages:
        task = translation(*arguments.languages)
    draw = draw_held_out = world_shots
    if arguments.pairs:
        pairs = load_pairs(arguments.pairs)
        if len(pairs) < 20:
            raise InputError(f"{arguments.pairs}: {len(pairs)} pairs are too few to learn from; give 20 or more")
        names = np.array(group_names(pairs, arguments.group))
        groups = np.random.default_rng([arguments.seed, 3]).permutation(np.unique(names))
        out = np.isin(names, groups[: max(1, len(groups) // 20)])
        held, kept = ([pairs[i] for i in np.flatnonzero(part)] for part in (out, ~out))
        draw = neighbour_shots(kept, kept, task)
        draw_held_out = neighbour_shots(held, kept, task)
    settings = {key: str(value) for key, value in sorted(vars(arguments).items())}
    if arguments.pairs:
        settings["sha256 of --pairs"] = file_sha256(arguments.pairs)
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    if (partial / "settings.json").exists() and read_json(partial / "settings.json") != settings:
        raise InputError(f"{partial} was begun with other settings; use the same, or remove it to start anew")
    write_json(partial / "settings.json", settings)

    rng = np.random.default_rng([arguments.seed, 0])
    tokenizer = train_tokenizer([sequence_text(*draw(rng))[0] for _ in range(20_000)], arguments.vocabulary)
    torch.manual_seed(arguments.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=arguments.width,
            intermediate_size=arguments.width * 8 // 3 // 16 * 16,
            num_hidden_layers=arguments.layers,
            num_attention_heads=arguments.width // HEAD_WIDTH,
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
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    first, losses, spent = 0, [], {"tokens": 0, "seconds": 0.0}
    if (partial / "state.json").exists():
        first, losses, spent = load_checkpoint(partial, model, optimizer)
    held_out = [
        make_batch(tokenizer, draw_held_out, np.random.default_rng([arguments.seed, 1, i]), 64, arguments.max_tokens)
        for i in range(4)
    ]

    started, running = time.monotonic() - spent["seconds"], []
    progress = tqdm(range(first, arguments.steps), initial=first, total=arguments.steps, unit="step")
    for step in progress:
        # The batch is a function of (seed, step), so a resumed run sees what the uninterrupted one would have seen.
        batch_rng = np.random.default_rng([arguments.seed, 2, step])
        ids, labels = make_batch(tokenizer, draw, batch_rng, arguments.batch, arguments.max_tokens)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, arguments.steps, arguments.learning_rate)
        loss = loss_of(model, ids, labels, arguments.precision)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        spent["tokens"] += ids.numel()
        running.append(loss.item())
        if (step + 1) % arguments.checkpoint_every == 0 or step + 1 == arguments.steps:
            with torch.inference_mode():
                dev = float(np.mean([loss_of(model, *batch, arguments.precision).item() for batch in held_out]))
            losses.append([step + 1, float(np.mean(running)), dev])
            running = []
            spent["seconds"] = time.monotonic() - started
            save_checkpoint(partial, model, optimizer, step + 1, losses, spent)
            progress.set_postfix(train=f"{losses[-1][1]:.4f}", held_out=f"{dev:.4f}")

    final = arguments.output.with_name(arguments.output.name + ".finished")
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None
    )
    model.half().save_pretrained(final)
    tokenizer.save_pretrained(final)
    facts = {
        "tokens": spent["tokens"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": len(tokenizer),
        "minutes": spent["seconds"] / 60,
        "threads": torch.get_num_threads(),
    }
    write_card(final, arguments, task, facts, losses)
    final.rename(arguments.output)
    shutil.rmtree(partial)
    print(json.dumps({"output": str(arguments.output), **facts, "loss": losses[-1][1:]}))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"error: {describe_os_error(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
