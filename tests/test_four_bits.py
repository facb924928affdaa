"""Models in 4 bits: what is quantized, what it takes to load, and that everything runs on them; the plan; GPTQ, AWQ."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MixtralConfig, PhiConfig, PretrainedConfig

from benchmarks.four_bit_loading import configuration, measured, write_model
from mrag_rl.agents.run import start_run
from mrag_rl.config import load_config
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.generation import Prompt
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models.plan import plan_model
from mrag_rl.models.pretrained import stored_quantization
from mrag_rl.models.private_apis import plain_experts
from mrag_rl.models.quantization import weight_bytes
from tests.tiny import tiny_world, write_tiny_llm

pytest.importorskip("bitsandbytes")

ARCHITECTURES = {"mixtral": MixtralConfig, "llama": LlamaConfig, "phi": PhiConfig}
CONFIGS = {"mixtral": "mixtral-8x7b", "llama": "llama-2-13b", "phi": "phi-2"}
GIB = 2**30


def small_config(architecture: str, **changes: Any) -> PretrainedConfig:
    """A model of two layers whose embeddings are as small a part of it as a large model's."""
    shape: dict[str, Any] = {
        "vocab_size": 64, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4 if architecture == "phi" else 2,
        "max_position_embeddings": 512, "initializer_range": 0.05, "tie_word_embeddings": False,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    if architecture == "mixtral":
        shape |= {"num_local_experts": 4, "sliding_window": None}
    return ARCHITECTURES[architecture](**{**shape, **changes})


def write_small(folder: Path, architecture: str, **changes: Any) -> Path:
    """The model in shards, in bfloat16, with the tiny model's tokenizer."""
    write_tiny_llm(folder, [pair.target for pair in tiny_world().splits.database])
    (folder / "model.safetensors").unlink()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(small_config(architecture, **changes), dtype=torch.bfloat16)
        model.save_pretrained(folder, max_shard_size="300KB")
    assert len([*folder.glob("*.safetensors")]) > 2
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: write_small(root / name, name) for name in ARCHITECTURES}


def some_prompts(count: int) -> list[Prompt]:
    return [Prompt("summarization", pair.source[:80]) for pair in tiny_world().splits.train[:count]]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_matrix_is_in_four_bits_and_the_logits_stay_near(
    folders: dict[str, Path], architecture: str, tmp_path: Path
) -> None:
    whole = TransformersLLM.load(folders[architecture], dtype="bfloat16")
    small = TransformersLLM.load(folders[architecture], dtype="bfloat16", quantization="nf4")
    share = weight_bytes(small.model) / weight_bytes(whole.model)
    # What stays in 16 bits, and the codes, weigh more in a model of few weights.
    assert share <= {"mixtral": 0.27, "llama": 0.3, "phi": 0.33}[architecture]
    kept = {name for name, parameter in small.model.named_parameters() if parameter.dtype == torch.bfloat16}
    assert {name for name in kept if not name.endswith("bias") and "norm" not in name} == {
        *(name for name, _ in whole.model.named_parameters() if "embed_tokens.weight" in name or "gate.weight" in name),
        "lm_head.weight",
    }
    ids = torch.randint(3, 64, (4, 24), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        models: list[Any] = [whole.model, small.model]
        expected, found = (model(ids).logits.float() for model in models)
    assert (found - expected).square().mean().sqrt() < 0.4 * expected.std()
    whole_model, small_model = models
    assert small_model.generation_config.eos_token_id == 2
    assert torch.equal(small_model.get_input_embeddings().weight, whole_model.get_input_embeddings().weight)
    head = whole_model.get_output_embeddings()
    assert head.bias is None or torch.equal(small_model.get_output_embeddings().bias, head.bias)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_texts_are_the_same_batched_single_kept_and_without_a_cache_of_keys(
    folders: dict[str, Path], architecture: str, tmp_path: Path
) -> None:
    llm = TransformersLLM.load(folders[architecture], quantization="nf4")
    prompts = some_prompts(6)
    for temperature in (0.0, 1.0):
        settings: dict[str, Any] = {"samples": 2, "temperature": temperature, "max_new_tokens": 8}
        together = llm.generate(prompts, **settings)
        assert len({text for texts in together for text in texts}) > 1
        assert [llm.generate([prompt], **settings)[0] for prompt in prompts] == together
        with CachedLLM(llm, tmp_path / "cache") as cached:
            assert cached.generate(prompts, **settings) == together
            generated = llm.usage.generated_tokens
            assert cached.generate(prompts, **settings) == together
            assert llm.usage.generated_tokens == generated
    ids = llm.tokenizer(llm.render(prompts[0]), return_tensors="pt")["input_ids"]
    start = ids.shape[1]
    with torch.inference_mode():
        while ids.shape[1] < start + 8 and not llm.decoder.stop_tokens[ids[0, -1]]:
            ids = torch.cat([ids, llm.model(ids, use_cache=False).logits[:, -1:].argmax(-1)], dim=1)
    text = str(llm.tokenizer.decode(ids[0, start:], skip_special_tokens=True))
    assert llm.generate(prompts[:1], max_new_tokens=8)[0][0] == text.split("\n")[0].strip()


class Products(TorchDispatchMode):
    """Counts bitsandbytes' products by the shape of the matrix, and matrices that are restored on their own."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[tuple[int, ...]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func) in ("bitsandbytes.gemm_4bit.default", "bitsandbytes.dequantize_4bit.default"):
            self.found[tuple(args[2 if "gemm" in str(func) else 4])] += 1
        return func(*args, **(kwargs or {}))


def test_only_the_experts_of_a_token_are_computed_with(folders: dict[str, Path]) -> None:
    model: Any = TransformersLLM.load(folders["mixtral"], quantization="nf4").model
    ids = torch.randint(3, 64, (3, 20), generator=torch.Generator().manual_seed(0))
    experts = [module for module in model.modules() if plain_experts(module)]
    with torch.inference_mode():
        with Products() as products:
            model(ids[:1, :1])
        assert products.found == {(128, 128): 4, (64, 128): 4, (1024, 128): 4, (128, 512): 4}  # two layers, two experts
        found = model(ids).logits
        for module in model.modules():
            vars(module).pop("forward", None)
        with Products() as products:
            expected = model(ids).logits
        assert products.found[4, 1024, 128] == len(experts) == 2  # all experts' matrices at once
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("architecture", ["gpt2", "mixtral"])
def test_matrices_that_are_no_products_of_their_own_still_run(architecture: str, tmp_path: Path) -> None:
    """GPT-2's lie the other way round; experts of 128 x 64 share blocks of scales."""
    config: PretrainedConfig = (
        GPT2Config(vocab_size=64, n_embd=128, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
        if architecture == "gpt2"
        else small_config("mixtral", hidden_size=64, intermediate_size=64, vocab_size=64)
    )
    write_small(tmp_path / "model", "mixtral")
    for file in (tmp_path / "model").glob("*safetensors*"):
        file.unlink()
    whole = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    whole.save_pretrained(tmp_path / "model")
    model = TransformersLLM.load(tmp_path / "model", quantization="nf4").model
    ids = torch.randint(3, 64, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), Products() as products:
        found: Any = model(ids)
    stacked = [shape for shape in products.found if len(shape) == 3]
    assert bool(stacked) == (architecture == "mixtral") and sum(products.found.values()) >= 8
    with torch.inference_mode():
        expected = whole(ids).logits
    assert (found.logits - expected).square().mean().sqrt() < 0.4 * expected.std()


def test_the_numbers_are_those_of_bitsandbytes_with_double_quantization(folders: dict[str, Path]) -> None:
    from bitsandbytes import functional

    model = TransformersLLM.load(folders["llama"], dtype="bfloat16", quantization="nf4").model
    name = "model.layers.1.mlp.down_proj.weight"
    index = json.loads((folders["llama"] / "model.safetensors.index.json").read_text())
    with safe_open(folders["llama"] / index["weight_map"][name], framework="pt") as file:
        weight = file.get_tensor(name)
    codes, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=True)
    layer: Any = model.get_submodule(name.removesuffix(".weight"))
    assert torch.equal(layer.weight, functional.dequantize_4bit(codes, state))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_decoder_in_four_bits_gives_heads(folders: dict[str, Path], architecture: str) -> None:
    texts = [pair.source for pair in tiny_world().splits.train[:4]]
    whole, small = (
        TransformerEncoder.load(str(folders[architecture]), quantization=quantization, max_length=64).encode(texts)
        for quantization in (None, "nf4")
    )
    assert small.heads.shape == (4, 4, 32)
    assert 0.9 < np.mean((whole.heads * small.heads).sum(-1)) < 0.99999


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_papers_configurations_train_on_small_models(
    folders: dict[str, Path], architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`configs/llm/*.yaml` as they are, but for the model's folder and the devices."""
    configs = Path(__file__).parents[1] / "configs"
    (tmp_path / "run.yaml").write_text(
        "name: tiny\ntask: summarization\nagent_s: {gradient_steps: 1, learning_starts: 8, batch_size: 8}\n"
        "agent_r: {gradient_steps: 1, learning_starts: 8, batch_size: 8}\n"
        "data: {sizes: {database: 30, train: 8, dev: 4, test: 4}}\nrefinement: {steps: 1}\n"
        "training: {rounds: 1, slots: 4, checkpoint_every: 1}\n"
        "evaluation: {bootstrap: 200, systems: [naive, m_rag], ablations: false}\n"
    )
    fragment = configs / "llm" / f"{CONFIGS[architecture]}.yaml"
    changes = ["--config", str(fragment), "--llm.name", str(folders[architecture]), "--llm.device", "cpu"]
    config = load_config(tmp_path / "run.yaml", [*changes, "--encoder.device", "cpu", "--llm.max_new_tokens", "8"])
    assert config.llm.quantization == "nf4" and config.llm.dtype != "float32"
    run = start_run(config, tmp_path / "runs")
    assert {"naive", "m_rag"} <= json.loads((run.root / "results.json").read_text())["systems"].keys()
    assert "in nf4" in capsys.readouterr().err


@pytest.mark.slow
def test_host_memory_stays_near_the_size_in_four_bits(tmp_path: Path) -> None:
    """A model of 0.4 GB: some 70 MB come on top, whatever its size; benchmarks/four_bit_loading.py has larger ones."""
    write_model(tmp_path, configuration("mixtral", 16), shard="50MB")
    result = measured(tmp_path, logits=False)
    assert result["share"] <= 0.27
    assert result["share"] < result["peak"] <= 0.5


def test_an_unreachable_model_is_refused_before_its_weights_are_read(folders: dict[str, Path], tmp_path: Path) -> None:
    write_small(tmp_path, "llama", hidden_size=120, intermediate_size=500)  # Rows are no whole blocks
    for file in tmp_path.glob("*.safetensors"):
        file.write_bytes(b"broken")
    with pytest.raises(InputError, match=r"would reach only .*% of the weights of LlamaForCausalLM"):
        TransformersLLM.load(tmp_path, quantization="nf4")


@pytest.mark.parametrize("quantization", [None, "nf4"])
@pytest.mark.parametrize("load", [TransformersLLM.load, TransformerEncoder.load])
@pytest.mark.parametrize(
    ("config", "message"),
    [("{broken", r"config\.json:1: not valid JSON"), ('{"model_type": "nothing"}', "cannot be loaded .* `nothing`")],
)
def test_a_damaged_or_unknown_configuration_is_refused(
    folders: dict[str, Path], tmp_path: Path, config: str, message: str, load: Any, quantization: Any
) -> None:
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "model"))
    (folder / "config.json").write_text(config)
    with pytest.raises(InputError, match=message):
        load(str(folder), quantization=quantization)


def test_a_damaged_missing_or_incomplete_checkpoint_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folders["llama"], tmp_path / "broken"))
    next(broken.glob("*.safetensors")).write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be loaded"):
        TransformersLLM.load(broken, quantization="nf4")
    incomplete = Path(shutil.copytree(folders["llama"], tmp_path / "incomplete"))
    index = incomplete / "model.safetensors.index.json"
    entries = json.loads(index.read_text())
    del entries["weight_map"]["model.layers.1.mlp.down_proj.weight"]
    index.write_text(json.dumps(entries))
    with pytest.raises(InputError, match=r"no weights for model\.layers\.1\.mlp\.down_proj\.weight"):
        TransformersLLM.load(incomplete, quantization="nf4")


# Bytes of the true models: weights in bfloat16, and as planned in nf4.
TRUE_SIZES = {"mixtral": (93_405_585_920, 24.5e9), "llama": (26_031_729_152, 7.2e9), "phi": (5_559_367_808, 1.82e9)}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_plan_of_the_true_models(architecture: str) -> None:
    plan = plan_model(
        configuration(architecture), {"cuda:0": 16 * GIB, "cuda:1": 24 * GIB}, dtype=torch.bfloat16, quantization="nf4"
    )
    whole, stored = TRUE_SIZES[architecture]
    buffers = 512
    assert abs(sum(plan.whole.values()) - whole) < buffers
    assert sum(plan.stored.values()) == pytest.approx(stored, rel=0.01)
    assert sum(device.weights for device in plan.devices.values()) == sum(plan.stored.values())
    assert plan.device_map["model.embed_tokens"] == "cuda:0" and plan.device_map["lm_head"] == "cuda:1"
    layers = [plan.device_map[f"model.layers.{i}"] for i in range(configuration(architecture).num_hidden_layers)]
    assert layers == sorted(layers) and len(set(layers)) == 2
    assert plan.devices["cuda:0"].weights < plan.devices["cuda:1"].weights
    if architecture == "mixtral":
        experts = 32 * 8 * 3 * 4096 * 14336
        assert plan.whole["experts"] == 2 * experts
        assert plan.stored["experts"] == pytest.approx(0.516 * experts, rel=1e-3)
        assert plan.whole["attention"] == 2 * 32 * (2 * 4096**2 + 2 * 4096 * 1024)
        assert plan.devices["cuda:0"].working == 2 * 8 * 3 * 4096 * 14336
        plan.check("mixtral")


@pytest.mark.parametrize("quantization", [None, "nf4"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_plan_is_what_loading_takes(folders: dict[str, Path], architecture: str, quantization: Any) -> None:
    lines: list[str] = []
    llm = TransformersLLM.load(folders[architecture], dtype="bfloat16", quantization=quantization, report=lines.append)
    plan = plan_model(small_config(architecture), {"cpu": None}, dtype=torch.bfloat16, quantization=quantization)
    assert sum(plan.stored.values()) == weight_bytes(llm.model)
    assert plan.device_map.keys() >= {"model.embed_tokens", "model.layers.0", "model.layers.1", "lm_head"}
    assert lines == (plan.lines() if quantization else [])


def test_the_plan_comes_before_any_weights_are_read(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "model"))
    for file in folder.glob("*.safetensors"):
        file.unlink()
    lines: list[str] = []
    with pytest.raises(InputError, match=r"no \*\.safetensors weights"):
        TransformersLLM.load(folder, quantization="nf4", report=lines.append)
    assert any(line.startswith("all weights") for line in lines)


def test_tied_embeddings_are_counted_once_and_stay_together() -> None:
    config = small_config("llama", tie_word_embeddings=True)
    plan = plan_model(config, {"cuda:0": GIB, "cuda:1": GIB}, dtype=torch.bfloat16)
    assert "head" not in plan.whole and plan.whole["embeddings"] == 2 * 64 * 128
    assert plan.device_map["lm_head"] == plan.device_map["model.embed_tokens"] == "cuda:0"


@pytest.mark.parametrize(
    ("devices", "quantization", "remedies"),
    [
        ({"cuda": 40 * GIB}, None, ["llm.quantization: nf4", "llm.device: auto"]),
        ({"cuda:0": 12 * GIB, "cuda:1": 12 * GIB}, "nf4", ["larger GPUs"]),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_change(
    devices: dict[str, int | None], quantization: Any, remedies: Sequence[str]
) -> None:
    plan = plan_model(configuration("mixtral"), devices, dtype=torch.bfloat16, quantization=quantization)
    with pytest.raises(InputError, match=r"LLM mixtral: its weights take .* GiB, .* GiB more than") as refusal:
        plan.check("mixtral")
    assert all(remedy in str(refusal.value) for remedy in remedies) and "\n" not in str(refusal.value)
    assert any("too many" in line for line in plan.lines())


@pytest.mark.parametrize(("method", "package"), [("gptq", "optimum"), ("awq", "gptqmodel")])
def test_checkpoints_of_other_methods_are_left_to_transformers(
    folders: dict[str, Path], tmp_path: Path, method: str, package: str
) -> None:
    folder = Path(shutil.copytree(folders["llama"], tmp_path / method))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4, "group_size": 128}
    (folder / "config.json").write_text(json.dumps(config))
    assert stored_quantization(folder) == method and stored_quantization(folders["llama"]) is None
    with pytest.raises(InputError, match=f"its weights are quantized already, by {method}; set quantization to null"):
        TransformersLLM.load(folder, quantization="nf4")
    try:
        __import__(package)
    except ImportError:
        with pytest.raises(InputError, match=f"{package}.*; install it or give another model folder"):
            TransformersLLM.load(folder)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_accelerates_hooks_between_layers_change_nothing(folders: dict[str, Path], architecture: str) -> None:
    """They move what goes from a device to the next; here all are the CPU."""
    accelerate = pytest.importorskip("accelerate")
    llm = TransformersLLM.load(folders[architecture], quantization="nf4")
    expected = llm.generate(some_prompts(4), samples=3, temperature=1.0, max_new_tokens=8)
    plan = plan_model(small_config(architecture), {"cpu": None}, dtype=torch.float32, quantization="nf4")
    accelerate.dispatch_model(llm.model, plan.device_map, main_device="cpu", force_hooks=True)
    assert any(hasattr(module, "_hf_hook") for module in llm.model.modules())
    assert llm.generate(some_prompts(4), samples=3, temperature=1.0, max_new_tokens=8) == expected


def test_several_devices_need_accelerate(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.generation.transformers_llm.free_memory", lambda _: {"cuda:0": GIB, "cuda:1": GIB})
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(InputError, match=r"placement needs accelerate: pip install 'mrag-rl\[gpu\]'"):
        TransformersLLM.load(folders["llama"], device="auto", quantization="nf4")


@pytest.mark.slow
def test_the_benchmark_of_a_model_of_the_true_size_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import large_model

    monkeypatch.setattr(large_model, "NEW_TOKENS", 4)
    options = "--device cpu --divisor 32 --layers 2 --sizes 1 4 --slots 2 --texts 4"
    monkeypatch.setattr(sys, "argv", ["large_model", str(tmp_path / "model"), *options.split()])
    large_model.main()
    lines = capsys.readouterr().out.splitlines()
    kinds = [line.split()[0] for line in lines]
    assert list(dict.fromkeys(kinds)) == ["written", "plan", "loaded", "batch", "heads", "training"]
    assert kinds.count("batch") == kinds.count("training") == 2
    assert "4 of 4 answers" in lines[kinds.index("batch")]
    files = [*(tmp_path / "model").glob("*.safetensors")]
    size = sum(file.stat().st_size for file in files) / 1e9
    assert len(files) == 3 and f"of {size:.1f} GB" in lines[kinds.index("loaded")]
