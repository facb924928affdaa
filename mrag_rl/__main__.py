"""`mrag-rl` and `python -m mrag_rl`: the commands, or one line that names the extra they need."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mrag_rl.errors import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mrag_rl.commands.main`; returns the exit status, 2 where an extra is not installed."""
    try:
        from mrag_rl import commands
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return commands.main(argv)


if __name__ == "__main__":
    sys.exit(main())
