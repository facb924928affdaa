"""The settings of a run's language model, on this machine or at a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from mrag_rl.errors import InputError
from mrag_rl.models.bundled import NEWSROOM_LLM
from mrag_rl.plugins import is_import_path
from mrag_rl.settings import bounded


@dataclass(frozen=True)
class LLMConfig:
    """The frozen language model."""

    name: str = "bundled"
    """bundled, gemma-3-270m (extra: llm), a local folder or GGUF file, a hub name of a decoder-only model, or the
    import path of a function of your own, such as my_package.models:my_llm (docs/plugins.md); with llm.server, the
    model's name there."""
    revision: str | None = None
    """Revision of a hub model."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of the weights."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda; auto spreads the layers over all GPUs (extra: gpu)."""
    quantization: Literal["nf4"] | None = None
    """nf4 converts the weights to 4 bits while they load (extra: gpu). Use null for a checkpoint stored quantized."""
    batch_tokens: int = bounded(16384, minimum=1, maximum=2**30)
    """Tokens in one batch, including padding and the tokens to be generated."""
    max_new_tokens: int = bounded(64, minimum=1, maximum=2**20)
    """Longest hypothesis, in tokens."""
    stop: tuple[str, ...] = ()
    """Strings that end a text, in addition to the end-of-sequence token and, without a chat template, a newline."""
    server: str | None = None
    """Address of a server with OpenAI's interface that runs the model, such as http://127.0.0.1:8000 (extra: server;
    docs/servers.md). Its key comes from the environment: MRAG_RL_API_KEY, else OPENAI_API_KEY."""
    chat: bool = False
    """Send the server chat messages, for its chat template, rather than a text to complete."""
    context: int | None = bounded(None, minimum=1)
    """Context length of the server's model in tokens, prompt and answer together; null is what the server reports."""
    concurrency: int = bounded(32, minimum=1, maximum=512)
    """Maximum number of concurrent requests to the server."""
    timeout: float = bounded(120.0, minimum=0, exclusive=True)
    """Seconds without a byte of an answer before the server is asked again; one that goes on coming is awaited."""
    cache: bool = True
    """Cache every generation in the run folder, so that nothing is generated twice. Without it, only the texts of the
    final evaluation are remembered, in memory, while it lasts."""
    cache_file: str | None = None
    """File of the cache, relative to the working directory; null is a file in the run folder. Runs that share one, at
    once or one after another, do not generate a text that another has generated."""

    @property
    def path(self) -> str:
        """What to load: the bundled folder, or ``name`` unchanged."""
        return str(NEWSROOM_LLM) if self.name == "bundled" else self.name

    @property
    def own_code(self) -> bool:
        """Whether ``name`` is the import path of a function of the user's own."""
        return self.server is None and is_import_path(self.name)


_HERE = ("revision", "dtype", "device", "quantization", "batch_tokens")
_AT_A_SERVER = ("chat", "context", "concurrency", "timeout")


def check_llm_config(config: LLMConfig) -> None:
    """Check what types and bounds cannot express. Raises an InputError that names the first bad key."""
    if config.cache_file is not None and not config.cache:
        raise InputError("llm.cache_file is set, but llm.cache is false; remove one of the two settings")
    if "" in config.stop:
        raise InputError("llm.stop contains an empty string, which would end every text at once; remove it")
    unused = (*_HERE, *_AT_A_SERVER) if config.own_code else _AT_A_SERVER if config.server is None else _HERE
    for key in unused:
        if getattr(config, key) != getattr(LLMConfig, key):
            if config.own_code:
                raise InputError(f"llm.{key} is set, but llm.name {config.name} is code of your own; remove llm.{key}")
            if config.server is None:
                raise InputError(f"llm.{key} is set, but llm.server is not; set llm.server, or remove llm.{key}")
            raise InputError(f"llm.{key} is set, but the server at llm.server decides it; remove llm.{key}")
    if config.server is None:
        return
    if config.name == "bundled":
        raise InputError("llm.name is bundled, but the model runs at llm.server; set llm.name to its name there")
    try:
        parts = urlsplit(config.server)
        secret = parts.username is not None or parts.password is not None or bool(parts.query or parts.fragment)
        host = (parts.hostname or "").encode("idna")  # As the system will look it up
        usable = parts.scheme in ("http", "https") and host != b"" and (parts.port or 1) > 0
        usable = usable and config.server.isprintable()
    except ValueError:  # a port that is no number, half an IPv6 address, two dots in a row
        secret, usable = any(mark in config.server for mark in "@?#"), False
    if secret:  # The message must not repeat it
        raise InputError(
            "llm.server holds more than an address: a user, a password or what follows ? or #; put the key into the "
            "environment variable MRAG_RL_API_KEY"
        )
    if not usable:
        raise InputError(f"llm.server is {config.server!r}; give an address such as http://127.0.0.1:8000")
