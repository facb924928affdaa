"""What every command of the project does about mistakes and interruptions."""

from __future__ import annotations

import sys
from collections.abc import Callable

from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, describe_os_error


def run_command(
    work: Callable[[], str],
    stopped: Callable[[], str],
    writes_to: Callable[[], StrPath | None] = lambda: None,
) -> int:
    """Do the work and print what it returns; a mistake is told in one line, without a traceback.

    Args:
        work: raises InputError on bad input.
        stopped: what to tell when interrupted: what is kept, and how to go on.
        writes_to: the place to name where the system does not say which file an error is about.

    Returns:
        0, 2 on bad input and failing files, 130 when interrupted.
    """
    try:
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
