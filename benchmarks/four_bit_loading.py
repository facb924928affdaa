"""How much memory does it take to load a large model in 4 bits, and what do its logits lose?

    python -m benchmarks.four_bit_loading [--architectures mixtral llama phi] [--divisor N]

Writes models of the paper's three architectures with random weights, as many layers and experts as the true ones
and a fraction of their width (Mixtral 8x7B / 8, Llama 2 13B / 4, Phi-2 / 2: 1.4 to 1.6 GB of bfloat16), as shards into
a temporary folder. Each is loaded in a process of its own, which samples its resident memory, mapped files included,
every two milliseconds. All ratios are to the bytes of the weights in bfloat16:

    peak     the most resident memory while loading, less that of before; some 70 MB of it are
             imports and buffers of the loader, whatever the model's size
    share    what the loaded weights take
    logits   root mean square of the logits' change by quantization, over their standard deviation
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    MixtralConfig,
    PhiConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from mrag_rl.models.pretrained import empty_model, load_pretrained
from mrag_rl.models.quantization import NF4Config, weight_bytes

DIVISORS = {"mixtral": 8, "llama": 4, "phi": 2}


def configuration(architecture: str, divisor: int = 1) -> PretrainedConfig:
    """Mixtral 8x7B, Llama 2 13B or Phi-2 with its widths and vocabulary divided by `divisor`.

    The weights' shapes are those that the hub's `config.json` gives for Mixtral-8x7B-Instruct-v0.1, Llama-2-13b-chat-hf
    and phi-2.
    """

    def shape(hidden: int, inner: int, layers: int, heads: int, groups: int, vocabulary: int) -> dict[str, Any]:
        return {
            "hidden_size": hidden // divisor,
            "intermediate_size": inner // divisor,
            "num_hidden_layers": layers,
            "num_attention_heads": max(1, heads // divisor),
            "num_key_value_heads": max(1, groups // divisor),
            "vocab_size": vocabulary // divisor,
            "tie_word_embeddings": False,
        }

    if architecture == "mixtral":
        return MixtralConfig(**shape(4096, 14336, 32, 32, 8, 32000), num_local_experts=8, sliding_window=None)
    if architecture == "llama":
        return LlamaConfig(**shape(5120, 13824, 40, 40, 40, 32000), max_position_embeddings=4096)
    return PhiConfig(**shape(2560, 10240, 32, 32, 32, 51200))


def write_model(folder: Path, config: PretrainedConfig, *, shard: str = "200MB") -> None:
    """A model with random weights in bfloat16, in shards of at most so much, and a tokenizer of one word."""
    words = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder, max_shard_size=shard)


def measured(folder: Path, *, logits: bool = True) -> dict[str, float]:
    """What `measure` finds in a new process."""
    command = [sys.executable, "-m", "benchmarks.four_bit_loading", "--measure", str(folder)]
    run = subprocess.run([*command, *(["--logits"] if logits else [])], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result


def measure(folder: Path, *, logits: bool) -> dict[str, float]:
    """Loads the model of a folder in this process; see the module's docstring for the keys."""
    NF4Config()  # Imports bitsandbytes
    config = AutoConfig.from_pretrained(folder)
    empty = empty_model(AutoModelForCausalLM, config, torch.bfloat16)  # Imports the architecture
    size = sum(parameter.numel() * 2 for parameter in empty.parameters())
    started = time.perf_counter()
    with peak_memory() as peak:
        model, *_ = load_pretrained(AutoModelForCausalLM, folder, role="LLM", dtype=torch.bfloat16, quantization="nf4")
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.max()  # What is still mapped is read
    result = {
        "MB": size / 1e6,
        "peak": peak[0] / size,
        "share": weight_bytes(model) / size,
        "seconds": time.perf_counter() - started,
    }
    if logits:
        ids = torch.randint(config.vocab_size, (2, 32), generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            quantized = model(ids).logits.float()
            del model
            whole, *_ = load_pretrained(AutoModelForCausalLM, folder, role="LLM", dtype=torch.bfloat16)
            expected = whole(ids).logits.float()
        result["logits"] = float((quantized - expected).square().mean().sqrt() / expected.std())
    return result


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """The bytes by which this process's resident memory, mapped files included, grew at most: the list's only entry."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], resident() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak[0] = max(peak[0], resident() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", nargs="+", choices=[*DIVISORS], default=[*DIVISORS])
    parser.add_argument("--divisor", type=int, help="of the true model's width, in place of the defaults above")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--logits", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, logits=arguments.logits)))
        return
    print(f"{'':10}{'MB':>8}{'peak':>8}{'share':>8}{'logits':>8}{'seconds':>9}")
    for architecture in arguments.architectures:
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder), configuration(architecture, arguments.divisor or DIVISORS[architecture]))
            row = measured(Path(folder))
        print(
            f"{architecture:10}{row['MB']:8.0f}{row['peak']:8.3f}{row['share']:8.3f}{row['logits']:8.3f}"
            f"{row['seconds']:9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
