"""Metadata filters: a small typed language, its meaning in Python and SQL, and its extraction from questions."""

from mrag_rl.extras import require

require("encode", "rapidfuzz", by=__name__)

from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import EVERYTHING, And, Condition, Filter, Or, matches, to_json
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.vocabulary import Field, FieldVocabulary, document_metadata

__all__ = [
    "EVERYTHING",
    "And",
    "Condition",
    "Extraction",
    "Extractor",
    "Field",
    "FieldVocabulary",
    "Filter",
    "LLMExtractor",
    "Or",
    "RuleExtractor",
    "document_metadata",
    "matches",
    "parse_filter",
    "to_json",
]
