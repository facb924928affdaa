"""Small real parts for tests: a randomly initialised Llama on disk, world pairs, a database with MiniLM's vectors."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mrag_rl.choices import ArmName, PartitioningMethod, StateName
from mrag_rl.data.records import TextPair
from mrag_rl.data.splits import Splits
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.generation.llm import LLM, Usage
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.memory import MemoryDatabase
from mrag_rl.partitioning import fit_partitioning


def write_tiny_llm(folder: Path, texts: list[str], *, words: int = 60) -> Path:
    """A Llama with random weights and a tokenizer of the commonest words, so that what it writes sometimes scores."""
    counts = Counter(word for text in texts for word in text.split())
    known = ["<pad>", "<s>", "</s>", "<unk>", *(word for word, _ in counts.most_common(words))]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(known)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(known), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.5,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@cache
def encoder() -> TransformerEncoder:
    """The real MiniLM, loaded once."""
    return TransformerEncoder.load("all-MiniLM-L6-v2")


@dataclass(frozen=True)
class TinyWorld:
    """World pairs with their embeddings."""

    splits: Splits
    database: Embeddings
    pairs: Embeddings
    train: Embeddings
    dev: Embeddings

    def make_database(
        self,
        folder: Path,
        *,
        method: PartitioningMethod = "category",
        state: StateName = "per_head",
        arms: Sequence[ArmName] = (),
    ) -> MemoryDatabase:
        """A new database of the world's memories, with the vectors that Agent-S's state needs."""
        memories = self.splits.database
        partitioning = fit_partitioning(
            method, self.database.standard, labels=[pair.labels for pair in memories], partitions=4, seed=0
        )
        return MemoryDatabase.create(
            folder, memories, self.database, partitioning,
            encoder_fingerprint=encoder().fingerprint, pair_embeddings=self.pair_embeddings(state),
            arms=arms,
        )  # fmt: skip

    def pair_embeddings(self, state: str) -> Embeddings | None:
        """Those of the memories' sources with their targets, as a state needs them."""
        standard = Embeddings(self.pairs.standard, self.pairs.standard[:, None, :])
        return {"peeking": self.pairs, "equation_1": standard}.get(state)


@cache
def tiny_world(database: int = 40, train: int = 24, dev: int = 12) -> TinyWorld:
    """Summarization pairs; embedded once for all tests."""
    splits = make_newsroom("summarization", seed=0, database=database, train=train, dev=dev, test=4)
    encode = encoder().encode

    def sources(pairs: Sequence[TextPair]) -> Embeddings:
        return encode([pair.source for pair in pairs])

    both = encode([f"{pair.source}\n{pair.target}" for pair in splits.database])
    return TinyWorld(splits, sources(splits.database), both, sources(splits.train), sources(splits.dev))


def tiny_llm(folder: Path) -> TransformersLLM:
    """The tiny Llama, loaded by the path that loads any other model, then made to compute in float64.

    In float32, rounding depends on a batch's shape and may change a text; tests compare texts of different batches.
    """
    texts = [pair.target for pair in tiny_world().splits.database]
    llm = TransformersLLM.load(str(write_tiny_llm(folder / "llm", texts)))
    llm.model.double()
    return llm


class TextsOnly:
    """A stand-in for a language model that no test asks for log-probabilities; subclasses write the texts."""

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        raise AssertionError("nothing here should score a text")


class ScriptedLLM:
    """A stand-in with the LLM protocol whose texts are words drawn by a hash of prompt, seed and sample."""

    fingerprint = "scripted"

    def __init__(self) -> None:
        self.usage = Usage()
        targets = " ".join(pair.target for pair in tiny_world().splits.database)
        self.words = [word for word, _ in Counter(targets.split()).most_common(60)]

    def render(self, prompt: Prompt) -> str:
        return prompt.query

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        samples: int = 1,
        first: int = 0,
        temperature: float = 0.0,
        seeds: int | Sequence[int] = 0,
        max_new_tokens: int = 64,
    ) -> list[list[str]]:
        seeds = [seeds] * len(prompts) if isinstance(seeds, int) else list(seeds)
        self.usage.prompts += len(prompts)
        return [
            [
                self._text(prompt, (seed, sample) if temperature > 0 else (0, 0))
                for sample in range(first, first + samples)
            ]
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        """Numbers in -3..0, drawn by a hash of prompt and completion."""
        self.usage.prompts += len(prompts)
        return [
            [float(-3.0 * _generator(prompt, text).random()) for text in texts]
            for prompt, texts in zip(prompts, completions, strict=True)
        ]

    def _text(self, prompt: Prompt, noise: tuple[int, int]) -> str:
        return " ".join(_generator(prompt, noise).choice(self.words, size=8))


def _generator(*of: object) -> np.random.Generator:
    return np.random.default_rng(np.frombuffer(hashlib.sha256(repr(of).encode()).digest(), np.uint32))


class Copier(TextsOnly):
    """A language model with a known answer: the last demonstration's target, or the text's first words without one.

    It makes visible what a system showed it, which no trained model would.
    """

    fingerprint = "copier"

    def __init__(self) -> None:
        self.usage = Usage()
        self.calls = 0

    def render(self, prompt: Prompt) -> str:
        return prompt.query

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        self.calls += 1
        shown = [p.demonstrations[-1][1] if p.demonstrations else " ".join(p.query.split()[:8]) for p in prompts]
        return [[text] * samples for text in shown]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], **settings: Any
    ) -> list[list[float]]:
        """The shorter, the more probable."""
        return [[-0.01 * len(text) for text in row] for row in completions]


class RememberingEncoder:
    """The real MiniLM, embedding every text once in a test session: the same few texts come back again and again."""

    prefixes = Prefixes()

    def __init__(self) -> None:
        self.known: dict[str, np.ndarray] = {}
        self.whole: dict[str, Embeddings] = {}

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(new, encoder().encode_standard(new), strict=True)) if new else {}
        return np.stack([self.known[text] for text in texts])

    def encode(
        self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False, pad: bool = True
    ) -> Embeddings:
        assert not prefix
        new = [text for text in dict.fromkeys(texts) if text not in self.whole]
        made = encoder().encode(new, pad=pad) if new else None
        self.whole |= {text: made[[row]] for row, text in enumerate(new)} if made else {}
        return Embeddings.concatenate([self.whole[text] for text in texts])


class NotingEncoder:
    """The real MiniLM, with a note of the texts of each call, and of how they were encoded."""

    def __init__(self, fingerprint: str | None = None) -> None:
        self.name, self.prefixes = encoder().name, encoder().prefixes
        self.fingerprint = fingerprint or encoder().fingerprint
        self.asked: list[list[str]] = []
        self.how: list[str] = []

    def encode(self, texts: Sequence[str], **arguments: Any) -> Embeddings:
        self._note(f"all {arguments}", texts)
        return encoder().encode(texts, **arguments)

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        self._note("standard", texts)
        return encoder().encode_standard(texts)

    def _note(self, how: str, texts: Sequence[str]) -> None:
        self.how.append(how)
        self.asked.append([*texts])


@cache
def remembering_encoder() -> RememberingEncoder:
    """One for all tests."""
    return RememberingEncoder()


def write_workplace(folder: Path, llm_folder: Path) -> Path:
    """`config.yaml` of a run with all systems, `small.yaml` of one with two, and a tiny language model as `llm`.

    llm_folder: where the language model is, or is written if there is none.
    """
    if not llm_folder.exists():
        world = make_newsroom("summarization", seed=0, database=100, train=1, dev=1, test=1)
        write_tiny_llm(llm_folder, [pair.target for pair in world.database])
    (folder / "llm").symlink_to(llm_folder)
    agent = "{gradient_steps: 1, learning_starts: 8, batch_size: 8}"
    llm = f"{{name: {llm_folder}, max_new_tokens: 20}}"
    both = f"task: summarization\nllm: {llm}\nagent_s: {agent}\nagent_r: {agent}\n"
    (folder / "config.yaml").write_text(
        f"name: tiny\n{both}data: {{sizes: {{database: 60, train: 16, dev: 8, test: 12}}}}\n"
        "refinement: {steps: 2}\ntraining: {rounds: 2, slots: 4, checkpoint_every: 1}\nevaluation: {bootstrap: 200}\n"
    )
    (folder / "small.yaml").write_text(
        f"name: small\n{both}data: {{sizes: {{database: 30, train: 8, dev: 4, test: 12}}}}\nrefinement: {{steps: 1}}\n"
        "training: {rounds: 1, slots: 4, checkpoint_every: 1}\n"
        "evaluation: {bootstrap: 200, systems: [naive, m_rag], ablations: false}\n"
    )
    return folder


def outcome(run: Path) -> dict[str, Any]:
    """All that a run leaves behind but its costs."""
    results = json.loads((run / "results.json").read_text())
    del results["seconds"], results["llm"]
    found: dict[str, object] = {"results": results, "answers": (run / "answers.jsonl").read_text()}
    for part in [run, *sorted((run / "ablations").glob("*"))]:
        name = part.relative_to(run)
        with MemoryDatabase.open(part / "database") as database:
            found[f"{name}/database"] = database.digest()
        found[f"{name}/log"] = (part / "log.jsonl").read_text()
        for folder in (part / "selector", part / "plots"):
            files = sorted(folder.iterdir()) if folder.is_dir() else []
            found[f"{name}/{folder.name}"] = {file.name: file.read_bytes() for file in files}
    return found


class Listening:
    """A language model that keeps the prompts that it is asked."""

    def __init__(self, llm: LLM) -> None:
        self.llm, self.fingerprint, self.usage = llm, llm.fingerprint, llm.usage
        self.prompts: list[Prompt] = []

    def render(self, prompt: Prompt) -> str:
        return self.llm.render(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return self.llm.fits(prompts, max_new_tokens)

    def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
        self.prompts += prompts
        return self.llm.generate(prompts, **settings)

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], *, max_new_tokens: int = 64
    ) -> list[list[float]]:
        self.prompts += prompts
        return self.llm.log_probabilities(prompts, completions, max_new_tokens=max_new_tokens)
