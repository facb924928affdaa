"""`encoder.name: llm`: the heads of the run's own language model, whose weights are held once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evaluate
import train
from mrag_rl import Selector
from mrag_rl.choices import INSIDE_LLM
from mrag_rl.config import Config, validate_config
from mrag_rl.encoder_config import EncoderConfig
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.llm_config import LLMConfig
from mrag_rl.models.bundled import NEWSROOM_LLM
from mrag_rl.runs.models import encoder_inside
from mrag_rl.training_config import RefinementConfig
from tests.test_four_bits import some_prompts
from tests.tiny import Copier, tiny_world

TEXTS = [pair.source for pair in tiny_world().splits.train[:6]]


def inside(llm: TransformersLLM, **settings: object) -> TransformerEncoder:
    return encoder_inside(llm, EncoderConfig(INSIDE_LLM, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("quantization", [None, "nf4"])
def test_the_vectors_are_those_of_the_model_loaded_by_itself(quantization: object) -> None:
    if quantization:
        pytest.importorskip("bitsandbytes")
    llm = TransformersLLM.load(NEWSROOM_LLM, quantization=quantization)  # type: ignore[arg-type]
    alone = TransformerEncoder.load(str(NEWSROOM_LLM), layer=1, quantization=quantization)  # type: ignore[arg-type]
    encoder = inside(llm, layer=1)
    for vectors in ("heads", "standard"):
        found, expected = (getattr(each.encode(TEXTS), vectors) for each in (encoder, alone))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    weights = {parameter.data_ptr() for parameter in llm.model.parameters()}
    assert {parameter.data_ptr() for parameter in encoder.model.parameters()} <= weights


def test_the_language_model_writes_as_before() -> None:
    llm = TransformersLLM.load(NEWSROOM_LLM)
    prompts = some_prompts(4)
    before = llm.generate(prompts, max_new_tokens=12)
    inside(llm).encode(TEXTS)
    assert llm.generate(prompts, max_new_tokens=12) == before


def test_another_layer_or_language_model_is_another_encoder() -> None:
    llm = TransformersLLM.load(NEWSROOM_LLM)
    other = TransformersLLM.load(NEWSROOM_LLM, stop=["!"])
    prints = {inside(llm).fingerprint, inside(llm, layer=0).fingerprint, inside(other).fingerprint}
    assert len(prints) == 3 and inside(llm).fingerprint in prints


def test_a_run_trains_and_answers_with_them(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--config", str(workplace / "small.yaml"), "--runs", str(tmp_path), "--name", "own"]
    assert train.main([*command, "--encoder.name", "llm", "--encoder.pooling", "mean"]) == 0
    run = tmp_path / "own"
    assert evaluate.main(["systems", "--run", str(run), "--systems", "naive", "m_rag"]) == 0
    capsys.readouterr()
    assert evaluate.main(["ask", "--run", str(run), "--text", TEXTS[0]]) == 0
    assert "partition" in capsys.readouterr().out
    with pytest.raises(InputError, match="trained with the heads of its language model: load both"):
        Selector.load(run / "selector").load_encoder()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"llm": LLMConfig("m", server="http://127.0.0.1:1")}, "a server does not expose attention heads"),
        ({"encoder": EncoderConfig(INSIDE_LLM, device="cuda")}, r"encoder\.device is set, .* or set llm\.device"),
        ({"encoder": EncoderConfig(INSIDE_LLM, sha256="0" * 64)}, r"encoder\.sha256 is set"),
        ({"refinement": RefinementConfig(dtype="bfloat16")}, r"refinement\.dtype is set, .* set llm\.dtype"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        validate_config(Config("a", **{"encoder": EncoderConfig(INSIDE_LLM), **changes}))  # type: ignore[arg-type]


def test_a_language_model_of_ones_own_has_no_heads() -> None:
    with pytest.raises(InputError, match="needs a transformers model on this machine"):
        encoder_inside(Copier(), EncoderConfig(INSIDE_LLM))
