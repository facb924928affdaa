"""The trained selector: from similarity states to partitions, with NumPy and safetensors only.

It is the product of a training run: Agent-S's greedy policy (M-RAG, Section 3.2) with the state normalisation of its
training. It imports no reinforcement-learning library and no PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mrag_rl import hub
from mrag_rl.access import checked_mask
from mrag_rl.choices import ARM_NAMES, INSIDE_LLM
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, is_intact, sealed
from mrag_rl.normalizer import StateNormalizer, as_states, mean_over_partitions
from mrag_rl.plugins import is_import_path
from mrag_rl.selector_files import (
    FORMAT_VERSION,
    WEIGHTS_FILE,
    WITH_LAYERS,
    check_tensors,
    layer_tensors,
    read_folder,
)
from mrag_rl.selector_info import CONFIG_FILE, SelectorInfo, read_field, read_info
from mrag_rl.selector_layers import TANH, Layer

if TYPE_CHECKING:
    from mrag_rl.encoders import TransformerEncoder

_BLOCK = 1024  # states per block, so that the normalised block and the hidden layer stay in the cache


@dataclass(frozen=True, repr=False)
class Selector:
    """Agent-S's greedy policy: q = W2 f(W1 z + b1) + b2 over normalised states z, with f = tanh or `hidden`.

    With the state "evidence", z is one partition's (F numbers) and q its value: the same small network reads every
    partition, so their order cannot matter, and their number may be any. Otherwise z is the whole state (M * F
    numbers), and q has M entries.

    Attributes:
        w1: (hidden, F) or (hidden, M*F) float32. b1: (hidden,). w2: (1, hidden) or (M, hidden). b2: (1,) or (M,).
        normalizer: the state normalisation of its training.
        info: what it was trained on and for.
        folder: where it was loaded from or exported to; None if neither.
        hidden: the layers between the first and the last, f.
    """

    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray
    normalizer: StateNormalizer
    info: SelectorInfo
    folder: Path | None = field(default=None, compare=False)
    hidden: tuple[Layer, ...] = TANH

    def __repr__(self) -> str:
        return (
            f"Selector(task={self.info.task!r}, partitions={self.partitions}, heads={self.heads}, "
            f"state={self.info.state!r}, encoder={self.info.encoder!r})"
        )

    @property
    def shared(self) -> bool:
        """Whether one network reads every partition, so that there may be any number of them."""
        return self.info.state == "evidence"

    @property
    def partitions(self) -> int:
        """M, the number of partitions that it was trained on."""
        return len(self.info.partition_names)

    @property
    def heads(self) -> int:
        """F, the number of entries per partition in a state; H where there is one for each head."""
        return int(self.normalizer.mean.shape[1])

    @property
    def head_weights(self) -> np.ndarray:
        """(F,) float: mean absolute first-layer weight per entry, as a measure of its influence on the choice."""
        weights: np.ndarray = np.abs(self.w1).reshape(len(self.b1), -1, self.heads).mean(axis=(0, 1))
        return weights

    def q_values(self, states: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """Expected reward of each partition, (B, M) float32, from raw states (B, M, F).

        allowed: as for `select`. The states of partitions that may not be read change no value: they have no part in
        the mean over the partitions, and a network that reads all partitions at once reads the mean of its training in
        their place. Their own values mean nothing.

        Raises:
            InputError: wrong shape, or a value that is not a finite number.
        """
        values = as_states(states)
        armed = set(ARM_NAMES.values()) <= set(self.info.features)
        if self.shared and values.shape[2] - self.heads == (-len(ARM_NAMES) if armed else len(ARM_NAMES)):
            own = "with" if armed else "without"
            raise InputError(f"the selector was trained {own} arms, unlike these states: use a database {own} arms")
        if self.shared and values.shape[2] != self.heads:
            reads = f"the selector reads {self.heads} numbers of a partition, not {values.shape[2]} (info.features)"
            raise InputError(f"{reads}: use the encoder and version of mrag_rl of its training, or train again")
        self.normalizer.check(values)
        mask = None if allowed is None else self._mask(values, allowed)
        if mask is not None:  # Only numbers that may be read go further, so that a NaN among the others is no sign
            values = np.where(mask[:, :, None], values, np.float32(0))
        q_values = np.empty(values.shape[:2], dtype=np.float32)
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            q_values[block] = self._values(values[block], None if mask is None else mask[block])
        if not np.isfinite(q_values).all():
            raise InputError("states have values that are not finite numbers: pass cosine similarities in -1..1")
        return q_values

    def expected_gain(self, states: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """What each partition's answer is expected to gain over the naive system's, (B, M) float32, in points (0-100).

        A line through the Q-values, fitted on the partitions chosen for the development queries; of others it says
        less. Arguments and errors as for `q_values`; InputError, too, if the selector was exported without the line.
        """
        return self.expected_gain_by(self.q_values(states, allowed))

    def expected_gain_by(self, values: np.ndarray) -> np.ndarray:
        """The same from Q-values (B, M) that `q_values` returned."""
        slope, intercept = self.info.gain_slope, self.info.gain_intercept
        if slope is None or intercept is None:
            raise InputError("the selector was exported without gain_slope and gain_intercept: train it again")
        gains: np.ndarray = 100.0 * (slope * values + intercept)
        return gains

    def _values(self, states: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
        if not self.shared:
            hidden = self.normalizer(states) @ self.w1.T
            hidden += self.b1
            values: np.ndarray = self._through(hidden) @ self.w2.T + self.b2
            return values
        # Centring commutes with the first layer, whose outputs are fewer than the features.
        weights = (self.w1 / self.normalizer.scale).T
        rows, shift = states.reshape(-1, self.heads) @ weights, self.b1 - self.normalizer.mean[0] @ weights
        hidden = rows.reshape(*states.shape[:2], -1)
        hidden += shift - mean_over_partitions(hidden, allowed) if self.normalizer.center else shift
        shared: np.ndarray = (self._through(rows) @ self.w2[0]).reshape(states.shape[:2]) + self.b2
        return shared

    def _through(self, rows: np.ndarray) -> np.ndarray:
        """The hidden layers' output (N, units) for the first layer's (N, hidden), which may be overwritten."""
        for layer in self.hidden:
            rows = layer(rows)
        return rows

    def _mask(self, values: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """`allowed` as (B, M), for states or values of this shape. Raises InputError for another shape or type."""
        shape = values.shape[:2]
        return np.broadcast_to(checked_mask(allowed, "allowed", "one per partition", shape[1:], shape), shape)

    def select(self, states: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """The best partition per query, (B,) int64, from raw states (B, M, F).

        Args:
            states: (B, M, F), what `mrag_rl.states.StateReader` reads, with the state that it was trained on.
            allowed: (M,) or (B, M) bool, the partitions that may be read; None allows all. A query without any allowed
                partition gets -1.

        Raises:
            InputError: wrong shape of `states` or `allowed`.
        """
        return self.select_by(self.q_values(states, allowed), allowed)

    def select_by(self, values: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """The same from Q-values (B, M) that `q_values` returned for these partitions."""
        if allowed is None:
            best: np.ndarray = values.argmax(axis=1)
            return best
        mask = self._mask(values, allowed)
        return np.where(mask.any(axis=1), np.where(mask, values, -np.inf).argmax(axis=1), -1)

    def confident(self, states: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """Whether each choice is trusted, (B,) bool: its value lies the margin or more above the next allowed one.

        Where it is not, search the whole database. A query with one allowed partition or none is never in doubt.
        Arguments and errors as for `select`.
        """
        return self.confident_by(self.q_values(states, allowed), allowed)

    def confident_by(self, values: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """The same from Q-values (B, M) that `q_values` returned for these partitions."""
        if allowed is not None:
            values = np.where(self._mask(values, allowed), values, -np.inf)
        trusted: np.ndarray = ~(margins(values) < self.info.margin)
        return trusted

    def load_encoder(self, name_or_path: str | None = None, *, device: str = "cpu") -> TransformerEncoder:
        """The encoder of its training, with the same settings; needs PyTorch and transformers.

        Args:
            name_or_path: name or folder of the encoder; None for the one in training.
            device: torch device.

        Raises:
            InputError: there is no encoder there, it is not the one of the training, or it is a function of the user's
                own (`mrag_rl.encoders.OwnEncoder`).
        """
        from mrag_rl.encoders import TransformerEncoder

        info = self.info
        name = name_or_path or info.encoder
        if is_import_path(name):
            raise InputError(
                f"encoder {name}: a selector imports no code; if you trust it, import it with "
                "mrag_rl.plugins.load_plugin(path) and encode with mrag_rl.encoders.OwnEncoder(path), whose "
                f"fingerprint has to be {info.encoder_fingerprint}"
            )
        if name == INSIDE_LLM:
            raise InputError(
                "the selector was trained with the heads of its language model: load both with "
                "mrag_rl.runs.models.load_models"
            )
        encoder = TransformerEncoder.load(
            name,
            layer=info.encoder_layer,
            pooling=info.encoder_pooling,
            standard=info.encoder_standard,
            device=device,
        )
        if encoder.fingerprint != info.encoder_fingerprint:
            raise InputError(
                f"encoder {name}: its fingerprint is {encoder.fingerprint[:12]}…, but the "
                f"selector was trained with {info.encoder_fingerprint[:12]}…: give the folder of that encoder"
            )
        return encoder

    @classmethod
    def load(cls, folder: str | Path) -> Selector:
        """Load an exported selector, checking the SHA-256 of its weights, its ONNX graph and its configuration.

        Raises:
            InputError: the folder or a file in it is missing, cannot be read, is a pickle or an archive, or has the
                wrong hash; a key or a tensor is missing, unknown, or of another type or shape; a number is not finite.
        """
        path = Path(folder)
        try:
            return _load(path)
        except OSError as error:
            where = error.filename or path
            raise InputError(f"{where}: cannot be read ({error.strerror}); check its permissions") from error

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: StrPath,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: StrPath | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
    ) -> Selector:
        """Load a selector from a folder as `load` does, or from the Hugging Face hub (extra: encode).

        Of a repository, only the files of a selector are downloaded, to huggingface_hub's cache, and checked like those
        of a folder.

        Args:
            pretrained_model_name_or_path: a folder, or the name of a repository, OWNER/NAME.
            revision: branch, tag or commit of the repository; None for main. Like the following, not for a folder.
            token: True for the token that is stored, False for none; None for the one that is stored, if any.
            cache_dir: another folder for the cache.
            force_download: whether to download again what the cache has.
            local_files_only: whether to use only what the cache has.

        Raises:
            InputError: as `load`, or the repository cannot be had. MissingExtra: the extra `encode` is missing.
        """
        if Path(pretrained_model_name_or_path).exists():
            return cls.load(Path(pretrained_model_name_or_path))
        repo_id = str(pretrained_model_name_or_path)
        return cls.load(
            hub.download(
                repo_id, revision=revision, token=token, cache_dir=cache_dir, force_download=force_download,
                local_files_only=local_files_only,
            )
        )  # fmt: skip

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str = "Upload a partition selector",
        private: bool | None = None,
        token: str | None = None,
        branch: str | None = None,
    ) -> str:
        """Upload the files of `folder` to the Hugging Face hub, as they are now (extra: encode); returns the commit's
        address.

        They are checked first. The card gets the hub's metadata, unless it has some; `mrag-rl push RUN` also writes the
        run's scores into it.

        Args:
            repo_id: the repository, OWNER/NAME, or NAME for one of your own. It is created if there is none.
            private: whether it is to be private; None is public, or what its owner's default is.
            token: of the hub; None for the one that is stored (hf auth login, HF_TOKEN).
            branch: None for main. It is created if there is none.

        Raises:
            InputError: there is no folder, a file in it is damaged, or the hub refuses it; `private`, and there is a
                public repository already. MissingExtra: the extra `encode` is missing.
        """
        if self.folder is None:
            raise InputError("the selector has no folder yet: write it with mrag_rl.selector_export.export_selector")
        checked = self.load(self.folder)
        return hub.upload(
            self.folder, repo_id, checked.info, commit_message=commit_message, private=private, token=token,
            branch=branch,
        )  # fmt: skip


def _load(path: Path) -> Selector:
    config, tensors, kinds = read_folder(path)
    info = read_info(config, path)
    normalizer = StateNormalizer(tensors["mean"], tensors["scale"], read_field(config, "center", bool, path))
    hidden = tuple(
        Layer(kind, {name: tensors[stored] for name, stored in layer_tensors(place, kind).items()})
        for place, kind in enumerate(kinds)
    )
    selector = Selector(tensors["w1"], tensors["b1"], tensors["w2"], tensors["b2"], normalizer, info, path, hidden)
    _check_tensors(selector, path)
    known = {*config_of(selector, config["sha256"]), "seal"}
    for name in sorted(config.keys() - known):
        raise InputError(f"{path / CONFIG_FILE}: unknown key {name[:40]!r}: use a folder that export_selector wrote")
    if not is_intact(config):
        raise InputError(
            f"{path / CONFIG_FILE}: changed or damaged since the selector was exported: copy or download it again"
        )
    return selector


def margins(values: np.ndarray) -> np.ndarray:
    """How far the best of values (B, M) lies above the next, (B,); infinite where there is no next one."""
    if values.shape[1] < 2:
        return np.full(len(values), np.inf)
    next_best, best = np.sort(values, axis=1)[:, -2:].T
    gaps: np.ndarray = np.subtract(best, next_best, out=np.full(len(values), np.inf), where=next_best > -np.inf)
    return gaps


def config_of(selector: Selector, sha256: Mapping[str, str]) -> dict[str, Any]:
    """The contents of `config.json` for a selector whose files have these SHA-256 hashes."""
    own = selector.hidden != TANH
    config = {
        "format_version": WITH_LAYERS if own else FORMAT_VERSION,
        **json.loads(json.dumps(asdict(selector.info))),
        **({"hidden_layers": [layer.kind for layer in selector.hidden]} if own else {}),
        "partitions": selector.partitions,
        "heads": selector.heads,
        "state_layout": ["partition", "head"],
        "center": selector.normalizer.center,
        "head_weights": [round(float(weight), 6) for weight in selector.head_weights],
        "sha256": dict(sha256),
    }
    return sealed(config)


def _check_tensors(selector: Selector, path: Path) -> None:
    """Raises InputError for a tensor that does not fit the partition names and the other tensors, or is not usable."""
    units, partitions = selector.b1.size, 1 if selector.shared else len(selector.info.partition_names)
    heads = selector.normalizer.mean.size // max(1, partitions)
    shapes = {"w1": (selector.w1, (units, partitions * heads)), "b1": (selector.b1, (units,))}
    for place, layer in enumerate(selector.hidden):
        for name, shape in layer.shapes(units).items():
            shapes[layer_tensors(place, layer.kind)[name]] = layer.tensors[name], shape
        units = layer.outputs(units)
    shapes |= {
        "w2": (selector.w2, (partitions, units)),
        "b2": (selector.b2, (partitions,)),
        "mean": (selector.normalizer.mean, (partitions, heads)),
        "scale": (selector.normalizer.scale, (partitions, heads)),
    }
    check_tensors(shapes, path / WEIGHTS_FILE)
