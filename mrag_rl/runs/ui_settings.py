"""The settings of `evaluate.py ui`."""

from __future__ import annotations

from dataclasses import dataclass

from mrag_rl.errors import InputError
from mrag_rl.settings import CheckedSettings, bounded


@dataclass(frozen=True)
class UISettings(CheckedSettings):
    """Answer in a browser: texts by a run's trained agents, or questions from documents, with everything that led to
    the answer. What may be read, the filter and the further queries can be edited on the page. Answers are those of
    `ask`; models are loaded once.

    It listens on this machine only, unless --host says otherwise: it has no passwords, and whoever reaches it may read
    whatever --allowed names.

    examples:
      python evaluate.py ui runs/quickstart
      python evaluate.py ui runs/quickstart --allowed court farm
          nobody reads any other partition, whatever he asks for
      python evaluate.py ui --documents bundled
      python evaluate.py ui --index d.index --llm gemma-3-270m --port 9000
    """

    run: str | None = None
    """Run folder that train.py made."""
    documents: str | None = None
    """JSONL file, MultiHop-RAG's corpus.json, or bundled for the bundled news, in place of a run."""
    index: str | None = None
    """Folder of an index on disk, as `ask` makes and reads it."""
    allowed: tuple[str, ...] | None = None
    """Partitions of the run, or categories of the documents, that may be read; null for all."""
    strategy: str = "hybrid"
    """Retrieval strategy for questions from documents."""
    reranker: str | None = None
    """Folder or hub name of a model that reranks what is found in documents."""
    llm: str = "bundled"
    """Answers questions from documents: bundled, a folder or a hub name; none for no LLM. A run has its own."""
    encoder: str = "all-MiniLM-L6-v2"
    """Folder or hub name of the encoder of documents. A run has its own."""
    device: str = "cpu"
    """Torch device for questions from documents, such as cpu or cuda."""
    trust: tuple[str, ...] = ()
    """Import paths of code that the run's settings name, and that may therefore run (docs/plugins.md)."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = bounded(8642, minimum=0, maximum=65_535)
    """Port to listen on; 0 takes a free one."""
    names: tuple[str, ...] = ()
    """Further names by which browsers may ask for the page, such as that of a proxy; others are refused."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.run is None) == (self.documents is None and self.index is None):
            raise InputError("give either a run folder, or --documents or --index")
        if self.run is not None:
            for name in ("strategy", "reranker", "llm", "encoder", "device"):
                if getattr(self, name) != getattr(UISettings, name):
                    raise InputError(f"--{name} goes with --documents or --index, not with a run; leave it out")
        elif self.trust:
            raise InputError("--trust goes with a run, not with --documents or --index; leave it out")
