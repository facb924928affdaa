"""How every command of the project reports mistakes and interruptions."""

from __future__ import annotations

import sys
from collections.abc import Callable

from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import StrPath, describe_os_error


def run_command(
    work: Callable[[], str],
    stopped: Callable[[], str],
    writes_to: Callable[[], StrPath | None] = lambda: None,
) -> int:
    """Do the work and print what it returns; report a mistake in one line, without a traceback.

    Args:
        work: the command; raises InputError on bad input.
        stopped: what to print after an interruption: what has been saved, and how to resume.
        writes_to: the path to name where the operating system does not say which file an error is about.

    Returns:
        The exit status: 0, 2 on bad input, a missing extra or a failing file, 130 when interrupted.
    """
    try:
        require("train", "faiss", "jsonargparse", "nltk", "torch", "transformers", "yaml", by="this command")
        print(work())
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {describe_os_error(error, writes_to())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nstopped; {stopped()}", file=sys.stderr)
        return 130
    return 0
