"""`mrag-rl push`: a selector, or that of a run, to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.share_settings import PushSettings
from mrag_rl.selector import Selector


def run(settings: PushSettings) -> str:
    """Upload the selector; returns where it is. Raises InputError as `export_run` and `Selector.push_to_hub` do."""
    folder = Path(settings.selector)
    with TemporaryDirectory() as temporary:
        if RunFolder(folder).config.is_file():
            from mrag_rl.runs.export import export_run  # here, because it takes long to import

            exported = Path(temporary, "selector")
            export_run(RunFolder(folder), exported)
            folder = exported
        return Selector.load(folder).push_to_hub(
            settings.repo_id, private=settings.private or None, branch=settings.revision
        )
