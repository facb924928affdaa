"""`mrag-rl pull`: a selector from the Hugging Face hub to a folder."""

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
    """Download the selector, check it, and put it in place; returns what it is.

    Raises InputError as `mrag_rl.hub.download` and `Selector.load` do, and if there is something at the output.
    """
    output = Path(settings.output)
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
