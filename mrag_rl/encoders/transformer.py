"""Standard and per-head embeddings from a Hugging Face transformer."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import nn
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from mrag_rl.choices import INSIDE_LLM, StandardEmbedding
from mrag_rl.encoders.attention import find_output_projections
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.batches import Batch
from mrag_rl.encoders.pooling import HeadPooling, pool
from mrag_rl.encoders.prefixes import Prefixes, stated_prefixes
from mrag_rl.encoders.sentence_layers import SentenceLayers, lower_cased, stated_layers
from mrag_rl.encoders.windows import LONGEST_WINDOW, WindowCutter, position_count, window_length
from mrag_rl.errors import InputError
from mrag_rl.models.devices import free_memory
from mrag_rl.models.names import MINILM_NAMES
from mrag_rl.models.pretrained import load_pretrained, refuse_own_code
from mrag_rl.models.private_apis import attention_implementation
from mrag_rl.models.quantization import NF4_PRECISION
from mrag_rl.models.weights import (
    MINILM_SETTINGS,
    MINILM_SHA256,
    find_model,
    settings_sha256,
    weights_sha256,
)


class TransformerEncoder(BatchedEncoder):
    """Texts to vectors by any Hugging Face transformer with multi-head attention, encoder or decoder.

    The standard embedding is what sentence-transformers computes with the model (its pooling, dense layers and norms,
    as the model's files state them; see ``SentenceLayers``), L2-normalised. Without such files, it is the last hidden
    state: a decoder's at the last token, the only one that has seen the whole text (Wang et al. 2024, E5-mistral;
    Multi-Head RAG), a bidirectional encoder's mean over tokens (the recipe of all-MiniLM-L6-v2; Reimers and Gurevych
    2019). With ``standard="trigrams"``, the standard embedding counts character trigrams instead
    (``trigram_embeddings``).

    The embedding of a head is its attention output, softmax(Q K^T / sqrt(d_h)) V, at one token, L2-normalised:
    "Multi-Head RAG" (Besta et al. 2024, Section 2), which reads the last token of a decoder's last layer. In a
    bidirectional encoder it is the first token's. Both embeddings come from one forward pass, and so do the heads of
    several layers: H = layers x heads, layer by layer.

    A text of more than ``max_length`` tokens is read in windows of that length, each beginning in the middle of the
    one before. Its vectors are the means of the windows' vectors, weighted by their tokens and taken before
    normalisation. A prefix is read in every window. Make one with ``TransformerEncoder.load``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        weights_hash: str,
        max_length: int,
        layer: int | Sequence[int] = -1,
        pooling: HeadPooling | None = None,
        standard: StandardEmbedding = "model",
        standard_layers: SentenceLayers | None = None,
        prefixes: Prefixes | None = None,
        batch_tokens: int | None = None,
        truncate: bool = False,
    ) -> None:
        """weights_hash: part of the fingerprint. standard_layers: what makes the standard embedding of the last hidden
        states, None for the default. prefixes: None for none. The rest as in ``load``. Raises InputError as ``load``
        does.
        """
        for option, value, choices in (
            ("pooling", pooling, (*get_args(HeadPooling), None)),
            ("standard", standard, get_args(StandardEmbedding)),
        ):
            if value not in choices:
                raise InputError(f"encoder.{option} is {value!r}; choose from {', '.join(filter(None, choices))}")
        model.train(False)
        if batch_tokens is None:
            batch_tokens = 1024 if model.dtype == torch.float32 else 2048
        if batch_tokens < 1:
            raise InputError(f"encoder.batch_tokens is {batch_tokens}; give 1 or more")
        config = model.config.get_text_config()
        heads = getattr(config, "num_attention_heads", None)
        if not heads:
            raise InputError(
                f"encoder {type(model).__name__}: no attention heads in its configuration; use a model with multi-head "
                "attention"
            )
        config.use_cache = False
        layers = [layer] if isinstance(layer, int) else list(layer)
        projections = find_output_projections(model, layers, layers=config.num_hidden_layers, heads=heads)
        widths = [projection.width for projection in projections]
        if len(set(widths)) > 1:
            raise InputError(f"encoder layers {layers}: their heads have widths {widths}; choose layers of one width")
        layers = [layer % config.num_hidden_layers for layer in layers]
        self.standard_layers = standard_layers or SentenceLayers(
            config.hidden_size, ["last" if projections[0].causal else "mean"]
        )
        self.standard_layers.requires_grad_(False).train(False).to(model.device)
        self.pooling: HeadPooling = pooling or ("last" if projections[0].causal else "first")
        prefixes = prefixes or Prefixes()
        if standard == "trigrams":
            weights_hash += " standard trigrams"
        elif (stated := self.standard_layers.description) != "mean":
            weights_hash += f" standard {stated}"
        if prefixes.default:
            weights_hash += f" prefix {prefixes.default}"
        one_or_more = layers if len(layers) > 1 else layers[0]
        identity = [weights_hash, one_or_more, self.pooling, str(model.dtype)]
        super().__init__(
            name=name,
            fingerprint=hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
            prefixes=prefixes,
            cutter=WindowCutter(tokenizer, max_length, truncate=truncate, name=name),
            layers=layers,
            heads=heads * len(layers),
            head_dimension=widths[0] // heads,
            model_dimension=self.standard_layers.width,
            standard=standard,
            batch_tokens=batch_tokens,
            dtype=model.dtype,
        )
        self.model = model
        self._projections = projections
        self._turn = threading.Lock()  # The hooks below are called by every pass, that of another thread, too

    @classmethod
    def load(
        cls,
        name_or_path: str = "all-MiniLM-L6-v2",
        *,
        sha256: str | None = None,
        layer: int | Sequence[int] = -1,
        pooling: HeadPooling | None = None,
        standard: StandardEmbedding = "model",
        device: str = "cpu",
        batch_tokens: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
        quantization: Literal["nf4"] | None = None,
        max_length: int | None = None,
        truncate: bool = False,
    ) -> TransformerEncoder:
        """Load a model by name (offline package, local folder or hub, in this order).

        sha256: expected hash of its safetensors file; for all-MiniLM-L6-v2 the official one is always expected.
        layer: layers whose heads are read, negative from the end; several give their heads side by side.
        pooling: which token's heads are read ("mean": the mean over all tokens); None is "first" for bidirectional and
            "last" for causal attention.
        standard: what the standard embeddings are; "trigrams" are made without the model (see ``trigram_embeddings``).
        batch_tokens: tokens in a batch, padding included; None is 1024 in float32, which stays in a CPU's cache, and
            2048 in 16 bits.
        device: a torch device, or "auto" for all GPUs (several need accelerate), layer by layer.
        dtype: type of weights and arithmetic; vectors are always float32.
        quantization: "nf4" for 4-bit weights (needs bitsandbytes; see ``NF4Config``).
        max_length: tokens in a window; None is what the model's files state for sentences (256 for all-MiniLM-L6-v2,
            which has 512 positions), else the number of its positions, at most 4096.
        truncate: read only the first window of a longer text, as in many published evaluations.

        Raises InputError: model not found, wrong hash, safetensors weights missing, damaged or incomplete, a model that
        needs code of its own (which is not run), no such layer, no attention heads, fewer positions than
        ``max_length``, no such device, no bitsandbytes.
        """
        devices = list(free_memory(device))
        folder = find_model(name_or_path)
        refuse_own_code(folder, role="encoder")
        if name_or_path in MINILM_NAMES:
            sha256 = sha256 or MINILM_SHA256
        weights_hash = weights_sha256(folder, expected=sha256)
        settings = settings_sha256(folder)
        if settings != MINILM_SETTINGS:  # Older databases hold MiniLM's fingerprint without its settings
            weights_hash += f" settings {settings}"
        model, tokenizer, absent = load_pretrained(
            AutoModel,
            folder,
            role="encoder",
            dtype=getattr(torch, dtype),
            quantization=quantization,
            device_map=_placement(devices, quantized=quantization is not None),
        )
        lower_cased(tokenizer, folder)
        parameters = dict(model.named_parameters(remove_duplicate=False))
        # The configuration of a T5 saved without its decoder states that there is none, but T5Model creates one.
        if model.config.is_encoder_decoder or (hasattr(model, "encoder") and hasattr(model, "decoder")):
            model = model.get_encoder()
        # transformers draws missing weights at random. That does no harm in a decoder that is not run, nor in a pooler,
        # which comes after the states that are read here and is often not saved.
        needed = set(model.parameters())
        for key in (key for key in absent if "pooler" not in key and parameters.get(key) in needed):
            raise InputError(f"encoder {folder}: no weights for {key}; give a folder with all weights")
        if quantization == "nf4":
            weights_hash += f" {NF4_PRECISION}"
        if max_length is not None:
            weights_hash += f" {max_length} tokens"
        if truncate:
            weights_hash += " truncated"
        return cls(
            model if len(devices) > 1 else model.to(devices[0]),
            tokenizer,
            name=name_or_path,
            weights_hash=weights_hash,
            max_length=window_length(folder, model, tokenizer, requested=max_length),
            layer=layer,
            pooling=pooling,
            standard=standard,
            standard_layers=stated_layers(folder, model.config.get_text_config().hidden_size),
            prefixes=stated_prefixes(folder),
            batch_tokens=batch_tokens,
            truncate=truncate,
        )

    @classmethod
    def inside(
        cls,
        language_model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        fingerprint: str,
        layer: int | Sequence[int] = -1,
        pooling: HeadPooling | None = None,
        standard: StandardEmbedding = "model",
        batch_tokens: int | None = None,
    ) -> TransformerEncoder:
        """The transformer inside a language model that is loaded already: its weights are held once, in its precision.

        fingerprint: of the language model. The rest, and what it raises, as in ``load``.
        """
        positions = position_count(language_model)
        return cls(
            cast("PreTrainedModel", language_model.base_model),
            tokenizer,
            name=INSIDE_LLM,
            weights_hash=f"language model {fingerprint}",
            max_length=min(positions or LONGEST_WINDOW, LONGEST_WINDOW),
            layer=layer,
            pooling=pooling,
            standard=standard,
            batch_tokens=batch_tokens,
        )

    def read(
        self, batches: Iterable[Batch], *, heads: bool
    ) -> Iterator[tuple[Batch, torch.Tensor, torch.Tensor | None]]:
        """Read batches, in order; see `BatchedEncoder.read`. Threads take turns."""
        pooled: dict[int, torch.Tensor] = {}
        calls = [0] * len(self._projections)
        lengths = torch.empty(0)

        def read_heads(i: int, module: nn.Module, args: tuple[Any, ...]) -> None:
            # Pooled at once, so that no layer's tokens are kept until the end of the pass.
            if calls[i] == self._projections[i].call:
                pooled[i] = pool(args[0], lengths, self.pooling)
            calls[i] += 1

        with self._turn, ExitStack() as hooks:
            for i, p in enumerate(self._projections if heads else ()):
                hooks.callback(p.module.register_forward_pre_hook(partial(read_heads, i)).remove)
            for batch in batches:
                moved = batch.to(self.model.device)
                lengths, calls[:] = moved.lengths, [0] * len(calls)
                standard = self._standard(moved).cpu()
                of_heads = [pooled.pop(i).cpu() for i in range(len(calls))] if heads else []
                yield batch, standard, torch.stack(of_heads, dim=1) if heads else None

    def attention(self, text: str, *, prefix: str | None = None) -> tuple[list[str], np.ndarray]:
        """The attention weights in the first window of a text: its T tokens, and the weights (H, T, T) of each head,
        after the softmax, from the row's token to the column's. prefix: as in ``encode``.

        Raises InputError for an empty text, and for a model that does not return the attention of all layers, such as
        one with recurrent layers.
        """
        if not text.strip():
            raise InputError("encoder: the text is empty; give it at least one word")
        window = self._cut([text], prefix).ids[0]
        with self._turn, torch.inference_mode():
            implementation = attention_implementation(self.model.config)
            self.model.set_attn_implementation("eager")  # Fused attention keeps no weights
            try:
                ids = torch.tensor([window], device=self.model.device)
                weights = self.model(input_ids=ids, output_attentions=True).attentions
            finally:
                self.model.set_attn_implementation(implementation)
        if weights is None or len(weights) != self.model.config.get_text_config().num_hidden_layers:
            raise InputError(
                f"encoder {self.name}: it does not return the attention of every layer; leave the plots out"
            )
        by_head = torch.cat([weights[layer][0] for layer in self.layers]).float().cpu().numpy()
        return list(self.tokenizer.convert_ids_to_tokens(window)), by_head

    @torch.inference_mode()
    def _standard(self, batch: Batch) -> torch.Tensor:
        """The standard embeddings of a batch's windows, (B, d) float32, before normalisation."""
        states = batch.run(self.model).to(self.model.device)  # The last layer may be on another device
        vectors: torch.Tensor = self.standard_layers(states, batch.lengths, batch.prefix)
        return vectors


def _placement(devices: Sequence[str], *, quantized: bool) -> dict[str, str] | Literal["auto"] | None:
    """Where weights go as they are read; None for main memory, from which they may be moved."""
    if len(devices) > 1:
        return "auto"
    return {"": devices[0]} if quantized and devices[0] != "cpu" else None
