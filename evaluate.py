"""Evaluate the systems of a run, pool runs, ask one of them; measure whether memories help on a corpus (gate),
retrieval, metadata filters and Multi-Meta-RAG.

python evaluate.py --help lists the commands, and python evaluate.py COMMAND --help their settings, with examples.
"""

import sys

from mrag_rl.commands import evaluate as main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
