"""`mrag-rl pull`: a selector or a memory database from the Hugging Face hub to a folder."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from mrag_rl import hub
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory
from mrag_rl.runs.share_settings import PullSettings
from mrag_rl.selector import Selector
from mrag_rl.selector_files import copy_files


def run(settings: PullSettings) -> str:
    """Download it, check it, and put it in place; returns what it is.

    Raises InputError as `hub.download`, `Selector.load` and `pull_database` do, and if there is an output already.
    """
    output = Path(settings.output)
    if settings.database:
        from mrag_rl.memory.sharing import pull_database  # here, because it takes long to import

        with pull_database(settings.repo_id, output, revision=settings.revision) as database:
            return f"{output}: {len(database)} memories in {', '.join(database.names)}"
    if output.exists():
        raise InputError(f"{output}: there already; choose another folder")
    with TemporaryDirectory() as temporary:
        folder = hub.download(settings.repo_id, revision=settings.revision, cache_dir=temporary)
        try:
            selector = Selector.load(folder)
        except InputError as error:
            problem = str(error).replace(f"{folder}{os.sep}", "")
            raise InputError(f"{settings.repo_id}: {problem}; nothing was kept") from error
        output.parent.mkdir(parents=True, exist_ok=True)
        with atomic_directory(output, replace=False) as target:
            copy_files(folder, target)
    return f"{output}: {selector!r}"
