"""`mrag-rl push`: a selector or a memory database, or that of a run, to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from mrag_rl.errors import InputError
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.share_settings import PushSettings
from mrag_rl.selector import Selector


def run(settings: PushSettings) -> str:
    """Upload it; returns where it is.

    Raises InputError as `export_run`, `Selector.push_to_hub` and `push_database` do, and for settings that do not go
    together.
    """
    if settings.public and (settings.private or not settings.database):
        raise InputError("--public goes with --database, and not with --private; leave it out")
    folder = Path(settings.source)
    is_run = RunFolder(folder).config.is_file()
    branch = settings.revision
    if settings.database:
        from mrag_rl.memory import MemoryDatabase  # here, because these take long to import
        from mrag_rl.memory.sharing import push_database

        with MemoryDatabase.open(RunFolder(folder).database if is_run else folder) as database:
            return push_database(
                database,
                settings.repo_id,
                name=f"Memories of {folder.name}",
                private=not settings.public,
                branch=branch,
            )
    with TemporaryDirectory() as temporary:
        if is_run:
            from mrag_rl.runs.export import export_run

            exported = Path(temporary, "selector")
            export_run(RunFolder(folder), exported)
            folder = exported
        return Selector.load(folder).push_to_hub(settings.repo_id, private=settings.private or None, branch=branch)
