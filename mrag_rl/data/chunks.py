"""Long documents split into slightly overlapping chunks of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrag_rl.extras import require

require("retrieve", "semantic_text_splitter", "tokenizers", "transformers", by=__name__)

from semantic_text_splitter import TextSplitter
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from mrag_rl.data.records import Document
from mrag_rl.errors import InputError

CHUNK_TOKENS, CHUNK_OVERLAP = 256, 32  # Multi-Meta-RAG (Poliakov and Shvai 2024), Section 3.2

# The splitter treats a newline as a boundary above sentences: it does not fill chunks across one, and overlaps chunks
# by whole paragraphs or not at all. U+2029 also ends a sentence, is one character too, and is no such boundary.
_AS_SENTENCE_ENDS = str.maketrans({"\n": "\u2029", "\r": "\u2029"})


@dataclass(frozen=True, slots=True)
class Chunk(Document):
    """A part of a document, with the document's title, category and metadata.

    Attributes:
        id: The document's id, "#" and the chunk's number in it, from 0.
        document: The document's id.
        start: Where in the document's text the chunk starts, in characters.
    """

    document: str = ""
    start: int = 0


def split_documents(
    documents: Sequence[Document],
    tokenizer: PreTrainedTokenizerBase,
    *,
    tokens: int = CHUNK_TOKENS,
    overlap: int = CHUNK_OVERLAP,
) -> list[Chunk]:
    """The chunks of documents in order, each a substring of the document's text, at least one per document.

    A chunk has as many sentences as fit into `tokens` tokens of the tokenizer, not counting special tokens, and begins
    with the last sentences of the chunk before it that fit into `overlap` tokens. A sentence is split, between words,
    only if it is longer than a chunk.

    Raises InputError: tokens < 1, overlap not in 0 to tokens - 1, a tokenizer that is not a fast one, a blank document.
    """
    if tokens < 1:
        raise InputError(f"chunks of {tokens} tokens; give 1 or more")
    if not 0 <= overlap < tokens:
        raise InputError(f"chunks that overlap by {overlap} of {tokens} tokens; give 0 to {tokens - 1}")
    if not tokenizer.is_fast:
        raise InputError(f"chunks: {type(tokenizer).__name__} is not a fast tokenizer; give one with a tokenizer.json")
    # A copy, because truncation and padding would falsify the counts, and the tokenizer belongs to the caller.
    counting = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    counting.no_truncation()
    counting.no_padding()
    splitter = TextSplitter.from_huggingface_tokenizer(counting, tokens, overlap)
    pieces = splitter.chunk_all_indices([document.text.translate(_AS_SENTENCE_ENDS) for document in documents])
    chunks: list[Chunk] = []
    for document, spans in zip(documents, pieces, strict=True):
        if not spans:
            raise InputError(f"document {document.id!r} is blank; give it some text or remove it")
        chunks += [
            Chunk(
                id=f"{document.id}#{number}",
                text=document.text[start : start + len(piece)],
                title=document.title,
                category=document.category,
                metadata=document.metadata,
                document=document.id,
                start=start,
            )
            for number, (start, piece) in enumerate(spans)
        ]
    return chunks
