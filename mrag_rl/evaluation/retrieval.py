"""Retrieval strategies on documents and multi-aspect queries: `evaluate.py retrieval`."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.data.multi_aspect import load_documents, load_queries
from mrag_rl.data.records import Document, Query
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import interval
from mrag_rl.evaluation.retrieval_plots import draw_all
from mrag_rl.io import write_json
from mrag_rl.metrics.multi_aspect import success_ratios, weighted_success
from mrag_rl.retrieval.index import IndexKind
from mrag_rl.retrieval.segments import split_all
from mrag_rl.retrieval.strategies import (
    DOCUMENT_SENTENCES,
    QUERY_SENTENCES,
    QUESTIONS,
    EncodedQueries,
    MultiAspectRetriever,
    Parts,
    check_strategies,
)
