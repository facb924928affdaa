"""The settings of the commands that share selectors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExportSettings:
    """Write the selector of a finished run to a folder of its own: its files as they are, and a model card that says
    what it was trained on and what the run scored. `push` uploads such a folder, `mrag_rl.Selector` loads it.

    examples:
      python evaluate.py export runs/quickstart --output desks
      python evaluate.py export runs/quickstart --output desks-memories --database
          its memories in place of the selector, as JSON Lines and safetensors; they are the texts themselves
    """

    run: str
    """Run folder that train.py made."""
    output: str
    """Folder to write; there must be none."""
    database: bool = False
    """Write the run's memories in place of its selector."""


@dataclass(frozen=True)
class PushSettings:
    """Upload a selector to the Hugging Face hub, or to another at HF_ENDPOINT: the weights, config.json, the ONNX graph
    and a model card, which of a run has its scores. Nothing else of the folder is sent. The repository is created if
    there is none. Log in first (hf auth login), or set HF_TOKEN.

    examples:
      python evaluate.py push runs/quickstart OWNER/NAME --private
      python evaluate.py push desks OWNER/NAME --revision second
      python evaluate.py push runs/quickstart OWNER/NAME --database
          the run's memories, texts included, as a private dataset
    """

    source: str
    """Run folder that train.py made, or a folder with a selector (with --database: a memory database)."""
    repo_id: str
    """The repository, OWNER/NAME, or NAME for one of your own."""
    private: bool = False
    """Create it as a private one; refused if it is there already, and public."""
    revision: str | None = None
    """Branch to upload to, created if there is none; null is main."""
    database: bool = False
    """Upload the memories in place of the selector, to a private repository."""
    public: bool = False
    """With --database: to a public one; whoever may see it may read all texts."""


@dataclass(frozen=True)
class PullSettings:
    """Download a selector from the Hugging Face hub, or from another at HF_ENDPOINT. Only the files of a selector are
    downloaded, and they are checked before they come into the folder: the hash of each, the tensors, every key.

    examples:
      python evaluate.py pull OWNER/NAME --output desks
      python evaluate.py pull OWNER/NAME --output desks-memories --database
    """

    repo_id: str
    """The repository, OWNER/NAME."""
    output: str
    """Folder to write; there must be none."""
    revision: str | None = None
    """Branch, tag or commit; null is main."""
    database: bool = False
    """Download a memory database, which a run's selector can be used on, in place of a selector."""
