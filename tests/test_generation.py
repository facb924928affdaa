"""Generation is a function of its arguments, for any decoder-only model, and samples by the model's probabilities."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from mrag_rl.errors import InputError
from mrag_rl.generation import CachedLLM, Prompt, messages, render, translation
from mrag_rl.generation.decoding import Request
from mrag_rl.generation.prompts import (
    ANSWER_TASK,
    FILTER_TASK,
    MOST_QUERIES,
    READER_TASK,
    STORY_TASK,
    TEMPLATES,
    query_task,
    shorten,
    template,
)
from mrag_rl.generation.sampling import row_key, sample_tokens, uniforms
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models.quantization import weight_bytes
from tests.tiny import write_tiny_llm

LINES = [
    "Article: the minister of trade met the harbour council on Monday to talk about fishing quotas.",
    "Summary: the council and the minister agree on quotas, says the trade desk.",
    "Dialogue: hello, how are you? I am fine, and what about your new house near the lake?\nReply: it is lovely.",
    "English: the parliament shall adopt the regulation. German: das Parlament nimmt die Verordnung an.",
]
WORDS = " ".join(LINES).split()


def small_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(LINES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def small_model(architecture: str, vocabulary: int, width: int = 32) -> PreTrainedModel:
    """A randomly initialised model whose weights are large enough that its probabilities differ."""
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "initializer_range": 0.2,
    }
    llama = {**shape, "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    llama |= {"intermediate_size": 2 * width, "max_position_embeddings": 512, "tie_word_embeddings": True}
    if architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**llama))
    if architecture == "mistral":
        return MistralForCausalLM(MistralConfig(**llama, sliding_window=16))
    if architecture == "mixtral":
        return MixtralForCausalLM(MixtralConfig(**llama, num_local_experts=4, sliding_window=None))
    if architecture == "gemma3":  # Its window is as wide as its context
        llama |= {"tie_word_embeddings": False, "layer_types": ["sliding_attention", "full_attention"]}
        return Gemma3ForCausalLM(Gemma3TextConfig(**llama, head_dim=8, sliding_window=512))
    return GPT2LMHeadModel(GPT2Config(**shape, n_embd=width, n_layer=2, n_head=4, n_positions=512))


ARCHITECTURES = ["llama", "gpt2", "mistral", "mixtral", "gemma3"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("llms")
    tokenizer = small_tokenizer()
    for name in ARCHITECTURES:
        small_model(name, len(tokenizer)).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: root / name for name in ARCHITECTURES}


def load_in_float64(folder: Path, *, stop: Sequence[str] = ()) -> TransformersLLM:
    """The model with float64 arithmetic, for tests that compare the texts of differently shaped batches.

    In float32 the last bits of a logit depend on the shape of the batch, since matrix products of other shapes sum in
    another order: 1e-5, by CPU. A random number as near to the boundary of two tokens is drawn once in some thousand
    tokens, and then the texts differ although the algorithm is right. In float64 all logits come out equal.
    """
    llm = TransformersLLM.load(folder, stop=stop)
    llm.model.double()
    if "Mixtral" in type(llm.model).__name__:
        llm.model.set_experts_implementation("eager")  # PyTorch's grouped matrix product knows no float64
    return llm


@pytest.fixture(scope="session")
def llama(folders: dict[str, Path]) -> TransformersLLM:
    return TransformersLLM.load(folders["llama"])


def some_prompts(count: int, seed: int = 0) -> list[Prompt]:
    rng = np.random.default_rng(seed)

    def text(low: int, high: int) -> str:
        return " ".join(rng.choice(WORDS, rng.integers(low, high)))

    return [
        Prompt("summarization", text(2, 30), ((text(2, 20), text(2, 6)),) if rng.random() < 0.5 else ())
        for _ in range(count)
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_text_does_not_depend_on_the_batch(folders: dict[str, Path], architecture: str, temperature: float) -> None:
    llm = load_in_float64(folders[architecture])
    prompts = some_prompts(9)
    seeds = list(range(9))
    together = llm.generate(prompts, samples=3, temperature=temperature, seeds=seeds, max_new_tokens=12)
    alone = [
        llm.generate([prompt], samples=3, temperature=temperature, seeds=[seed], max_new_tokens=12)[0]
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]
    assert together == alone
    order = np.random.default_rng(1).permutation(9)
    shuffled = llm.generate(
        [prompts[i] for i in order],
        samples=3,
        temperature=temperature,
        seeds=[seeds[i] for i in order],
        max_new_tokens=12,
    )
    assert shuffled == [together[i] for i in order]
    llm.batch_tokens = 100
    assert llm.generate(prompts, samples=3, temperature=temperature, seeds=seeds, max_new_tokens=12) == together
    fewer = llm.generate(prompts, samples=1, temperature=temperature, seeds=seeds, max_new_tokens=12)
    rest = llm.generate(prompts, samples=2, first=1, temperature=temperature, seeds=seeds, max_new_tokens=12)
    assert rest == [texts[1:] for texts in together]
    assert fewer == [row[:1] for row in together]
    assert len({text for row in together for text in row}) > (6 if temperature == 0 else 20)
    # As it is used, in float32, the same but for a token whose random number is next to a boundary.
    single = TransformersLLM.load(folders[architecture])
    rounded = single.generate(prompts, samples=3, temperature=temperature, seeds=seeds, max_new_tokens=12)
    same = [a == b for pair in zip(rounded, together, strict=True) for a, b in zip(*pair, strict=True)]
    assert sum(same) >= 0.9 * len(same)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_samples_of_a_prompt_do_not_see_one_another(folders: dict[str, Path], architecture: str) -> None:
    llm = load_in_float64(folders[architecture])
    prompts = some_prompts(4, seed=5)
    asked, seeds = [*prompts, prompts[1]], [0, 1, 2, 3, 4]  # 20 samples of one prompt make 40 of another
    together = llm.generate(asked, samples=20, temperature=1.5, seeds=seeds, max_new_tokens=12)
    for i, prompt in enumerate(asked):
        for count in (1, 7):
            alone = llm.generate([prompt], samples=count, temperature=1.5, seeds=seeds[i], max_new_tokens=12)
            assert alone == [together[i][:count]]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_decoding_is_the_librarys(folders: dict[str, Path], architecture: str) -> None:
    llm = load_in_float64(folders[architecture])
    for prompt in some_prompts(4, seed=3):
        ids = llm.tokenizer(render(prompt), return_tensors="pt")
        model: Any = llm.model
        out = model.generate(**ids, max_new_tokens=10, do_sample=False, pad_token_id=1)[0, ids["input_ids"].shape[1] :]
        expected = str(llm.tokenizer.decode(out, skip_special_tokens=True)).split("\n")[0].strip()
        assert llm.generate([prompt], max_new_tokens=10) == [[expected]]


def test_greedy_samples_are_copies_and_ignore_the_seed(llama: TransformersLLM) -> None:
    prompts = some_prompts(3)
    first = llama.generate(prompts, samples=2, seeds=1, max_new_tokens=8)
    assert all(a == b for a, b in first)
    assert llama.generate(prompts, samples=2, seeds=2, max_new_tokens=8) == first


def test_sampled_tokens_follow_the_models_probabilities(llama: TransformersLLM) -> None:
    prompt, temperature, draws = some_prompts(1)[0], 1.3, 3000
    ids = llama.tokenizer(render(prompt), return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        logits = llama.model(ids).logits[0, -1].double()
    probabilities = torch.softmax(logits / temperature, 0).numpy()
    for by_seed in (False, True):
        if by_seed:
            keys = [row_key(seed, render(prompt), 0) for seed in range(draws)]
        else:
            keys = [row_key(0, render(prompt), sample) for sample in range(draws)]
        rows = logits.float().expand(draws, -1)
        drawn = sample_tokens(rows, temperature, np.array(keys, dtype=np.uint64), 0).numpy()
        counts = np.bincount(drawn, minlength=len(probabilities))
        assert chi_square(counts, probabilities * draws) > 1e-4


def chi_square(counts: np.ndarray, expected: np.ndarray, least: float = 5.0) -> float:
    """The p-value, with all cells expected fewer than `least` times pooled into one."""
    rare = expected < least
    observed = [*counts[~rare], counts[rare].sum()]
    wanted = [*expected[~rare], expected[rare].sum()]
    return float(scipy.stats.chisquare(observed, wanted).pvalue)


def test_second_tokens_follow_the_models_probabilities(llama: TransformersLLM) -> None:
    # Over whole completions: the joint frequency of the two first tokens, against the model's own.
    prompt = Prompt("translation", "the parliament")
    texts = llama.generate([prompt], samples=2000, temperature=0.7, max_new_tokens=2)[0]
    ids = llama.tokenizer(render(prompt), return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        first = torch.softmax(llama.model(ids).logits[0, -1].double() / 0.7, 0)
        both = torch.cat([ids.expand(len(first), -1), torch.arange(len(first))[:, None]], 1)
        second = torch.softmax(llama.model(both).logits[:, -1].double() / 0.7, 1)
    joint: dict[str, float] = {}
    for i in range(len(first)):
        for j in (second[i] * first[i] > 1e-6).nonzero()[:, 0].tolist() if not llama.decoder.stop_tokens[i] else [None]:
            text = str(llama.tokenizer.decode([i] if j is None else [i, j], skip_special_tokens=True))
            text = text.split("\n")[0].strip()
            joint[text] = joint.get(text, 0.0) + float(first[i] if j is None else first[i] * second[i, j])
    assert sum(joint.values()) > 0.95
    names = list(joint)
    counts = np.array([texts.count(name) for name in names] + [sum(text not in joint for text in texts)])
    expected = np.array([joint[name] for name in names] + [1 - sum(joint.values())]) * len(texts)
    assert chi_square(counts, expected) > 1e-4


def test_random_numbers_are_uniform_and_uncorrelated() -> None:
    keys = [row_key(seed, text, sample) for seed in range(20) for text in "ab" for sample in range(25)]
    numbers = np.stack([uniforms(np.array(keys, np.uint64), step) for step in range(40)]).astype(float)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert scipy.stats.kstest(numbers.ravel(), "uniform").pvalue > 1e-4
    assert len(np.unique(numbers)) > 0.99 * numbers.size
    correlations = np.corrcoef(numbers)[np.triu_indices(40, 1)]  # between steps, over keys
    assert np.abs(correlations).max() < 5 / np.sqrt(len(keys))
    # Neighbouring samples of a prompt, and the same sample of neighbouring seeds.
    rows = numbers.T.reshape(20, 2, 25, 40)
    for first, second in ((rows[:, :, :-1], rows[:, :, 1:]), (rows[:-1], rows[1:])):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / np.sqrt(first.size)


def test_impossible_tokens_are_never_drawn() -> None:
    keys = np.arange(200_000, dtype=np.uint64)
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, -5.0, 2.0, -torch.inf]).expand(len(keys), -1)
    drawn = np.bincount(sample_tokens(logits, 1.0, keys, 0).numpy(), minlength=6)
    assert drawn[[0, 2, 5]].sum() == 0 and drawn[[1, 3, 4]].min() > 0
    highest = np.nextafter(np.float32(1), np.float32(0)) - np.float32(2.0**-24)
    assert uniforms(keys, 0).max() <= highest


@pytest.mark.parametrize(("vocabulary", "temperature"), [(6, 1.0), (512, 0.7), (70_001, 0.3)])
def test_a_token_is_where_the_cumulative_distribution_passes_its_number(vocabulary: int, temperature: float) -> None:
    keys = np.arange(300, dtype=np.uint64)
    logits = 3 * torch.randn(300, vocabulary, generator=torch.Generator().manual_seed(0))
    logits[:, 1::7] = -torch.inf
    probabilities = torch.softmax(logits.double() / temperature, dim=-1)
    ends, numbers = probabilities.cumsum(dim=-1), torch.from_numpy(uniforms(keys, 3)).double()
    drawn = sample_tokens(logits, temperature, keys, 3)[:, None]
    end, own = ends.gather(1, drawn)[:, 0], probabilities.gather(1, drawn)[:, 0]
    assert (own > 0).all() and (numbers < end + 1e-6).all() and (numbers > end - own - 1e-6).all()
    for rows in (slice(0, 1), slice(7, 90)):
        assert torch.equal(sample_tokens(logits[rows], temperature, keys[rows], 3), drawn[rows, 0])


def test_plain_prompts_have_the_trained_form() -> None:
    prompt = Prompt("dialogue", "how\nare you?", (("hi", "hello"), ("a", "b")))
    assert render(prompt) == "Dialogue: hi\nReply: hello\n\nDialogue: a\nReply: b\n\nDialogue: how\nare you?\nReply:"
    assert render(Prompt("summarization", "x")) == "Article: x\nSummary:"
    assert render(Prompt("translation", "x")) == "English: x\nGerman:"


def test_translation_prompts_name_their_languages() -> None:
    prompt = Prompt(translation("German", "English"), "Hallo", (("ja", "yes"),))
    assert render(prompt) == "German: ja\nEnglish: yes\n\nGerman: Hallo\nEnglish:"
    assert messages(prompt)[0]["content"].startswith("Translate the German text into English with the examples'")
    assert messages(prompt)[2]["content"] == "German: Hallo"
    assert shorten(prompt, lambda p: len(p.query), 5) == prompt
    default = Prompt(translation("English", "German"), "hello")
    assert render(default) == render(Prompt("translation", "hello"))
    assert messages(default) == messages(Prompt("translation", "hello"))


def test_templates_are_complete_and_cannot_be_changed() -> None:
    assert {query_task(n) for n in range(1, MOST_QUERIES + 1)} < set(TEMPLATES)
    assert {ANSWER_TASK, FILTER_TASK, READER_TASK, STORY_TASK} < set(TEMPLATES)
    assert all(template(task) is form for task, form in TEMPLATES.items())
    with pytest.raises(TypeError):
        TEMPLATES["another"] = TEMPLATES["story"]  # type: ignore[index]


def test_chat_turns_alternate_and_carry_one_instruction() -> None:
    turns = messages(Prompt("summarization", "x", (("s", "t"),)))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"].endswith("\n\nArticle: s") and turns[0]["content"].startswith("Summarize")
    assert [turn["content"] for turn in turns[1:]] == ["t", "Article: x"]


def test_a_chat_template_is_used_where_the_model_has_one(folders: dict[str, Path], tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
    small_model("llama", len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    llm = load_in_float64(tmp_path)
    prompt = Prompt("translation", "the house")
    assert llm.render(prompt).startswith("[user] Translate") and llm.render(prompt).endswith("[assistant]")
    assert llm.fingerprint != TransformersLLM.load(folders["llama"]).fingerprint
    ids = llm.tokenizer(llm.render(prompt), return_tensors="pt")
    model: Any = llm.model
    out = model.generate(**ids, max_new_tokens=20, do_sample=False, pad_token_id=1)[0, ids["input_ids"].shape[1] :]
    expected = str(llm.tokenizer.decode(out, skip_special_tokens=True)).strip()
    assert llm.generate([prompt], max_new_tokens=20) == [[expected]]


def test_an_overlong_prompt_is_shortened_at_its_sources() -> None:
    prompt = Prompt("summarization", "q " * 50 + "END", (("s " * 100, "target stays"), ("brief", "kept")))
    short = shorten(prompt, lambda p: len(render(p).split()), 60)
    assert len(render(short).split()) in (59, 60)
    assert short.demonstrations[0][1] == "target stays" and short.demonstrations[1] == ("brief", "kept")
    assert short.query.startswith("q q") and "END" not in short.query
    dialogue = Prompt("dialogue", "old " * 50 + "END")
    assert shorten(dialogue, lambda p: len(render(p).split()), 10).query.endswith("old END")
    assert shorten(prompt, lambda p: len(render(p).split()), 1000) is prompt


def test_prompts_beyond_the_context_still_get_an_answer(llama: TransformersLLM) -> None:
    long = Prompt("summarization", "harbour council " * 600, (("minister " * 600, "the trade desk"),))
    assert len(llama.generate([long, *some_prompts(2)], samples=1, max_new_tokens=8)) == 3
    with pytest.raises(InputError, match="context of 512"):
        llama.generate([Prompt("summarization", "x", (("s", "target " * 600),))], max_new_tokens=8)


def test_stop_strings_end_a_text_wherever_tokens_break(folders: dict[str, Path]) -> None:
    prompts = some_prompts(12)
    without = load_in_float64(folders["llama"])
    free = [texts[0] for texts in without.generate(prompts, temperature=1.0, max_new_tokens=16)]
    longest = max(free, key=len)
    middle = len(longest) // 2
    stop = [longest[middle : middle + 3], longest[-2:]]
    llm = load_in_float64(folders["llama"], stop=stop)
    assert llm.fingerprint != without.fingerprint
    cut = [texts[0] for texts in llm.generate(prompts, temperature=1.0, max_new_tokens=16)]
    assert cut == [min((text.split(s)[0] for s in stop), key=len).strip() for text in free]
    assert cut != free and llm.usage.generated_tokens < without.usage.generated_tokens


def test_running_out_of_memory_halves_the_batch(folders: dict[str, Path]) -> None:
    llm = load_in_float64(folders["llama"])
    prompts = some_prompts(8)
    expected = llm.generate(prompts, samples=4, temperature=1.0, max_new_tokens=6)
    forward, limit = llm.model.forward, 5

    def small_memory(input_ids: torch.Tensor, **kwargs: object) -> object:
        if len(input_ids) > limit:
            raise torch.OutOfMemoryError("not enough memory")
        return forward(input_ids=input_ids, **kwargs)

    llm.model.forward = small_memory
    assert llm.generate(prompts, samples=4, temperature=1.0, max_new_tokens=6) == expected
    limit = 0
    with pytest.raises(InputError, match="does not fit into the memory"):
        llm.generate(prompts, max_new_tokens=6)


def test_identical_prompts_are_computed_once_and_counted(folders: dict[str, Path]) -> None:
    llm = TransformersLLM.load(folders["llama"])
    prompt = some_prompts(1)[0]
    (one,) = llm.generate([prompt], samples=2, temperature=1.0, max_new_tokens=6)
    tokens = llm.usage.generated_tokens
    assert 2 <= tokens <= 12 and llm.usage.prompts == 1 and llm.usage.batches == 1 and llm.usage.seconds > 0
    assert llm.generate([prompt] * 5, samples=2, temperature=1.0, max_new_tokens=6) == [one] * 5
    assert llm.usage.generated_tokens == 2 * tokens and llm.usage.prompts == 6
    assert llm.generate([]) == []


def test_the_fingerprint_follows_weights_and_precision(folders: dict[str, Path], llama: TransformersLLM) -> None:
    assert TransformersLLM.load(folders["llama"]).fingerprint == llama.fingerprint
    others = [TransformersLLM.load(folders["gpt2"]), TransformersLLM.load(folders["llama"], dtype="bfloat16")]
    assert len({llama.fingerprint, *(llm.fingerprint for llm in others)}) == 3
    assert others[1].generate(some_prompts(2), samples=2, temperature=1.0, max_new_tokens=4)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "mixtral"])
def test_nf4_reaches_every_matrix_and_still_writes(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bitsandbytes")
    tokenizer = small_tokenizer()
    small_model(architecture, len(tokenizer), width=128).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    full = TransformersLLM.load(tmp_path)
    small = TransformersLLM.load(tmp_path, quantization="nf4")
    assert small.fingerprint != full.fingerprint
    kept = sum(weight_bytes(module) for module in full.model.modules() if isinstance(module, torch.nn.Embedding))
    # 4 bits a weight and an 8-bit scale for 64 of them, against 32 bits: 0.13; norms, biases and codes add to it.
    share = (weight_bytes(small.model) - kept) / (weight_bytes(full.model) - kept)
    assert 0.13 < share < 0.15
    for name, parameter in full.model.named_parameters():
        module, _, attribute = name.rpartition(".")
        restored = getattr(small.model.get_submodule(module), attribute)
        if parameter.ndim >= 2:
            assert torch.corrcoef(torch.stack([parameter.flatten(), restored.flatten()]))[0, 1] > 0.99
        with torch.no_grad():
            parameter.copy_(restored)
    # The same batches of the same shapes through the same kernels: equal to the last bit.
    prompts = some_prompts(5)
    for temperature in (0.0, 1.0):
        texts = small.generate(prompts, samples=2, temperature=temperature, max_new_tokens=6)
        assert texts == full.generate(prompts, samples=2, temperature=temperature, max_new_tokens=6)
        assert len({text for row in texts for text in row}) > 4
    monkeypatch.setitem(sys.modules, "bitsandbytes.nn.parametrize", None)
    with pytest.raises(InputError, match="needs bitsandbytes"):
        TransformersLLM.load(tmp_path, quantization="nf4")


def test_long_batches_are_prefilled_in_parts_with_the_same_texts(folders: dict[str, Path]) -> None:
    llama = load_in_float64(folders["llama"])
    rng = np.random.default_rng(5)
    prompts = [Prompt("summarization", " ".join(rng.choice(WORDS, rng.integers(20, 70)))) for _ in range(40)]
    together = llama.generate(prompts, samples=2, temperature=1.0, max_new_tokens=8)
    some = range(0, 40, 7)
    alone = [llama.generate([prompts[i]], samples=2, temperature=1.0, max_new_tokens=8)[0] for i in some]
    assert [together[i] for i in some] == alone


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_call_that_was_stopped_resumes_with_the_batches_that_are_left(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    llm = TransformersLLM.load(folders["llama"], batch_tokens=300)
    decode = llm.decoder.decode
    batches: list[list[Request]] = []
    prompts = some_prompts(30) + some_prompts(6)  # Some twice
    settings: dict[str, Any] = {"samples": 2, "temperature": temperature, "seeds": [i % 3 for i in range(36)]}

    def watched(requests: list[Request], *arguments: Any) -> list[list[int]]:
        batches.append(requests)
        if len(batches) == fails:
            raise KeyboardInterrupt
        return decode(requests, *arguments)

    monkeypatch.setattr(llm.decoder, "decode", watched)
    fails = 0
    whole = llm.generate(prompts, max_new_tokens=6, **settings)
    planned, fails = batches[:], 4
    batches.clear()
    with CachedLLM(llm, tmp_path / "texts.sqlite") as cached:
        with pytest.raises(KeyboardInterrupt):
            cached.generate(prompts, max_new_tokens=6, **settings)
        assert cached.generate(prompts, max_new_tokens=6, **settings) == whole
    assert len(planned) > 5 and batches[:4] == planned[:4]
    assert batches[4:] == planned[3:]


def test_what_is_no_llm_is_refused_by_name(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="LLM '/nowhere/llm': no such folder; give a model folder"):
        TransformersLLM.load("/nowhere/llm")
    with pytest.raises(InputError, match=r"LLM .*: no config\.json"):
        TransformersLLM.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(InputError, match=r"LLM .*: no \*\.safetensors weights"):
        TransformersLLM.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not tensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(InputError, match=r"LLM .*: cannot be loaded \(") as caught:
        TransformersLLM.load(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="dtype 'int3'"):
        TransformersLLM.load(folders["llama"], dtype="int3")


def test_missing_weights_are_refused_and_not_drawn_at_random(tmp_path: Path) -> None:
    folder = write_tiny_llm(tmp_path / "llm", ["a b c"])
    weights = load_file(folder / "model.safetensors")
    name = next(key for key in sorted(weights) if "mlp" in key)
    save_file(
        {key: value for key, value in weights.items() if key != name}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(InputError, match=f"no weights for {name}; give a folder with all weights"):
        TransformersLLM.load(folder)
