"""What does a language model of Mixtral 8x7B's true size take on a GPU: to load in 4 bits, to write, to train with?

    python -m benchmarks.large_model FOLDER [--device cuda] [--sizes 1 16 64] [--slots 64]

FOLDER gets a checkpoint with Mixtral 8x7B's shapes and random weights in bfloat16 (93 GB), written on the device, if it
has none yet; on Linux, /dev/shm/mixtral is in memory. The tokenizer knows the words of the bundled newsroom, so that
texts have realistic lengths; with random weights every answer is 64 tokens long and means nothing. Prints:

    written    the checkpoint, if it was not there
    plan       as a run prints it before it reads any weights
    loaded     seconds, and those of hashing the files, in parallel and (reckoned from one file) one by one; the most
               host memory, mapped files included, the most memory of the GPU, and what the loaded weights take, as
               shares of the weights in bfloat16
    batch      generated tokens a second at each batch size, the time to read the prompts included, and how many answers
               equal those of the first size; the most memory of the GPU so far
    heads      texts read a second without and with the embeddings of the last layer's attention heads
    training   queries a second of joint training, with the language model as the encoder, too

--divisor and --layers shrink the model, for a machine without such a GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PretrainedConfig, PreTrainedTokenizerFast

from benchmarks.batch_sizes import written
from benchmarks.four_bit_loading import configuration, peak_memory
from benchmarks.joint_training import line, train
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.generation import Prompt
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import file_sha256
from mrag_rl.models.quantization import weight_bytes
from mrag_rl.models.weights import weights_sha256

NEW_TOKENS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--divisor", type=int, default=1, help="of the width and the vocabulary")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--slots", type=int, default=64, help="queries that joint training learns from at once")
    parser.add_argument("--texts", type=int, default=256, help="texts that are read for their heads")
    parser.add_argument("--only-write", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.folder / "config.json").exists():
        config = configuration("mixtral", arguments.divisor)
        config.num_hidden_layers = arguments.layers
        started = time.perf_counter()
        size = write_checkpoint(arguments.folder, config, arguments.device)
        print(f"written   {size / 1e9:.1f} GB in {time.perf_counter() - started:.0f} s", flush=True)
    if not arguments.only_write:
        llm = load(arguments.folder, arguments.device)
        answers(llm, arguments.sizes)
        heads(llm, arguments.texts)
        training(llm, arguments.slots)


def load(folder: Path, device: str) -> TransformersLLM:
    """The model in 4 bits."""
    started = time.perf_counter()
    weights_sha256(folder, expected=None)
    hashed = time.perf_counter() - started
    largest = max(folder.glob("*.safetensors"), key=lambda file: file.stat().st_size)
    started = time.perf_counter()
    file_sha256(largest)
    one = (time.perf_counter() - started) / largest.stat().st_size
    with peak_memory() as peak:
        started = time.perf_counter()
        llm = TransformersLLM.load(
            folder,
            dtype="bfloat16",
            device=device,
            quantization="nf4",
            batch_tokens=131072,
            report=lambda text: print(f"plan      {text}", flush=True),
        )
        seconds = time.perf_counter() - started
    whole = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    on_device = f", {device} {device_peak(device) / whole:.3f}" if device.startswith("cuda") else ""
    print(
        f"loaded    in {seconds:.0f} s (hash {hashed:.0f} s, one by one {one * whole:.0f} s); peaks: host "
        f"{peak[0] / whole:.3f}{on_device}; weights {weight_bytes(llm.model) / whole:.3f} of {whole / 1e9:.1f} GB",
        flush=True,
    )
    return llm


def answers(llm: TransformersLLM, sizes: Sequence[int]) -> None:
    """Generated tokens a second: of four answers one at a time, else of one batch, of eight answers at least."""
    splits = make_newsroom("summarization", seed=0, database=max(sizes), train=max(sizes), dev=1, test=1)
    prompts = [
        Prompt("summarization", query.source, ((memory.source, memory.target),))
        for query, memory in zip(splits.train, splits.database, strict=True)
    ]
    llm.generate(prompts, max_new_tokens=4)  # warm-up
    first: list[str] = []
    for size in sizes:
        some = prompts[: max(size, 8)] if size > 1 else prompts[:4]
        texts, made, seconds = written(llm, some, size, NEW_TOKENS)
        first = first or texts
        equal = sum(a == b for a, b in zip(texts, first, strict=False))
        print(f"batch     {size}: {made / seconds:.1f} tokens/s ({made} in {seconds:.1f} s), ", end="")
        print(f"{equal} of {min(len(first), len(texts))} answers as in the first", flush=True)
    if llm.model.device.type == "cuda":
        print(f"memory    {device_peak(str(llm.model.device)) / 1e9:.1f} GB of the GPU at most", flush=True)


def heads(llm: TransformersLLM, count: int) -> None:
    """Texts read a second for the standard embedding alone, and for the heads' embeddings with it."""
    encoder = inside(llm)
    texts = [
        pair.source for pair in make_newsroom("summarization", seed=1, database=count, train=1, dev=1, test=1).database
    ]
    rates = []
    for read in (encoder.encode_standard, encoder.encode):
        read(texts)  # warm-up
        started = time.perf_counter()
        read(texts)
        rates.append(len(texts) / (time.perf_counter() - started))
    print(f"heads     {rates[0]:.1f} texts/s without, {rates[1]:.1f} with {encoder.heads} heads", flush=True)


def training(llm: TransformersLLM, slots: int) -> None:
    """Queries a second of joint training."""
    encoder = inside(llm)
    for count, queries in ((slots, slots), (1, 2)):
        runs = train(llm, encoder, encoder, memories=200, queries=queries, slots=[count], warm_up=False)
        print(f"training  {count} at a time: {line([seconds for _, seconds in runs], queries)}", flush=True)


def inside(llm: TransformersLLM) -> TransformerEncoder:
    """The language model as the encoder."""
    return TransformerEncoder.inside(llm.model, llm.tokenizer, fingerprint=llm.fingerprint, pooling="mean")


def device_peak(device: str) -> int:
    """The most bytes that torch has had on a GPU."""
    return torch.cuda.max_memory_allocated(device)


def write_checkpoint(folder: Path, config: PretrainedConfig, device: str, workers: int = 8) -> int:
    """Mixtral as the hub has it, its weights normal with standard deviation 0.02, a file for each layer: its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [dict(outer(config)), *(dict(layer(config, number)) for number in range(config.num_hidden_layers))]
    names = [f"model-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    with ThreadPoolExecutor(workers) as threads:
        sizes = [
            *threads.map(lambda part: write_part(folder / part[0], part[1], device), zip(names, parts, strict=True))
        ]
    index = {key: name for name, part in zip(names, parts, strict=True) for key in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    write_tokenizer(folder, config.vocab_size)
    config.architectures = ["MixtralForCausalLM"]
    config.save_pretrained(folder)
    return sum(sizes)


def write_part(file: Path, shapes: dict[str, tuple[int, ...]], device: str) -> int:
    """A safetensors file of random weights, tensor by tensor, so that no more than one is held: its bytes."""
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as output:
        output.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            if "norm" in name:
                weight = torch.ones(shape, dtype=torch.bfloat16)
            else:
                weight = torch.empty(shape, dtype=torch.bfloat16, device=device).normal_(std=0.02).cpu()
            weight.view(torch.int16).numpy().tofile(output)
    return end


def outer(config: PretrainedConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of what lies outside the layers."""
    yield "model.embed_tokens.weight", (config.vocab_size, config.hidden_size)
    yield "model.norm.weight", (config.hidden_size,)
    yield "lm_head.weight", (config.vocab_size, config.hidden_size)


def layer(config: PretrainedConfig, number: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a layer."""
    path, hidden, inner = f"model.layers.{number}", config.hidden_size, config.intermediate_size
    groups = hidden // config.num_attention_heads * config.num_key_value_heads
    for name, size in (("q", hidden), ("k", groups), ("v", groups)):
        yield f"{path}.self_attn.{name}_proj.weight", (size, hidden)
    yield f"{path}.self_attn.o_proj.weight", (hidden, hidden)
    yield f"{path}.block_sparse_moe.gate.weight", (config.num_local_experts, hidden)
    for expert in range(config.num_local_experts):
        for name, shape in (("w1", (inner, hidden)), ("w2", (hidden, inner)), ("w3", (inner, hidden))):
            yield f"{path}.block_sparse_moe.experts.{expert}.{name}.weight", shape
    yield f"{path}.input_layernorm.weight", (hidden,)
    yield f"{path}.post_attention_layernorm.weight", (hidden,)


def write_tokenizer(folder: Path, vocabulary: int) -> None:
    """A tokenizer of the newsroom's commonest words, filled up to the model's vocabulary with words of its own."""
    pairs = make_newsroom("summarization", seed=0, database=1000, train=1, dev=1, test=1).database
    counts = Counter(word for pair in pairs for word in f"{pair.source} {pair.target}".split())
    words = ["<s>", "</s>", "<unk>", *(word for word, _ in counts.most_common(vocabulary - 3))]
    words += [f"word{number}" for number in range(vocabulary - len(words))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    ).save_pretrained(folder)


if __name__ == "__main__":
    main()
