"""The settings of every experiment, as `evaluate.py` reads them; the experiments' own modules do the work.

They are kept apart so that `--help` and command-line errors do not wait for torch to load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mrag_rl.errors import InputError
from mrag_rl.settings import CheckedSettings, OnCluster, bounded, check_store_address


@dataclass(frozen=True)
class RetrievalSettings(CheckedSettings, OnCluster):
    """Rank documents for multi-aspect queries with each retrieval strategy; write success ratios and print a table.

      standard          the standard embedding
      mrag              every attention head votes for its nearest documents: importance of the head * 2^-rank
      mrag_decay        the same without importance
      mrag_distance     a head's vote is 1 / distance
      split             the standard embedding cut into as many pieces as there are heads; each votes 2^-rank
      split_weighted    the same with the importance of each piece
      fusion            reciprocal rank fusion over the query and generated questions about it ("questions")
      fusion_mrag       the same over the rankings of mrag
      segment_mrag      every sentence of the query votes in every head
      late_interaction  every sentence of the query splits one vote in every head and in the standard space, by
                        similarity to whole documents and to their nearest sentences
      words             BM25 over titles and texts
      hybrid            every sentence of the query splits votes by BM25 and by similarity in the standard space, and
                        so does every window of eight words by BM25; no aspect takes all places (recommended)

    documents: {"id", "text", "category", "title"?}; queries: {"id", "text", "questions"?: [...]} and "relevant":
    [document id], or "aspects": for each a list of documents, any one of which answers it

    --documents may also be the folder of a published benchmark: BEIR, MTEB or LIMIT (corpus.jsonl, queries.jsonl,
    qrels), QUEST (documents.jsonl, SPLIT.jsonl) or BRIGHT (documents/SPLIT.jsonl, examples/SPLIT.jsonl). Titles and
    texts are encoded together, and the rankings are scored by nDCG@10, AP (whose mean is MAP), RR (MRR) and R@100, from
    the benchmark's graded judgements. --trec writes rankings and judgements for trec_eval.

    With --llm a language model answers each query from the documents fetched, and the facts in its answers are counted:
    the numbers and names that it states, and how many of them the relevant documents support. It reads the --fetch best
    documents, or as many of them as fit its context. The bundled model knows only the bundled news.

    examples:
      python evaluate.py retrieval --output out.json --plots plots
          the bundled articles
      python evaluate.py retrieval --documents d.jsonl --queries q.jsonl --output out.json --plots plots
      python evaluate.py retrieval --documents d.jsonl --queries q.jsonl --output out.json \\
          --strategies standard mrag hybrid --encoder BAAI/bge-base-en-v1.5 \\
          --prefix "Represent this sentence for searching relevant passages: "
      python evaluate.py retrieval --documents scifact --split test --output out.json --trec trec
          a benchmark in BEIR's layout; also writes trec/qrels.txt and trec/STRATEGY.run
      python evaluate.py retrieval --output out.json --strategies standard hybrid --fetch 5 \\
          --llm PATH_OR_HUB_MODEL
    """

    output: str
    """Where to write the results (JSON)."""
    documents: str | None = None
    """JSONL file of documents, or the folder of a benchmark; null for the bundled articles."""
    queries: str | None = None
    """JSONL file of queries; null for those of the folder or of the bundled articles."""
    split: str | None = None
    """Split of the folder, in BRIGHT its domain; null is test."""
    strategies: tuple[str, ...] | None = None
    """Retrieval strategies; null is all that the queries allow."""
    fetch: int | None = bounded(None, minimum=1, maximum=10_000_000)
    """Documents fetched for a query; null is 32, and 100 for a folder."""
    plots: str | None = None
    """Folder to draw the results in; null draws nothing."""
    trec: str | None = None
    """Folder to write the rankings and judgements to, in TREC's formats; null writes none."""
    embeddings: str | None = None
    """Folder where embeddings are kept between runs; null is embeddings, next to the output."""
    encoder: str = "all-MiniLM-L6-v2"
    """Folder or hub name of the encoder."""
    layer: tuple[int, ...] = (-1,)
    """Layers whose heads are read; -1 is the last."""
    pooling: Literal["first", "last", "mean"] | None = None
    """Token whose head outputs are read; null is the first token of an encoder, the last of a decoder."""
    max_length: int | None = None
    """Maximum number of tokens in one window; longer texts are read in several. null is the model's own limit."""
    truncate: bool = False
    """Read only the first window of a longer text."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the encoder's weights."""
    quantization: Literal["nf4"] | None = None
    """nf4 quantizes the encoder's weights to 4 bits while it loads, for models of billions of weights."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""
    prefix: str | None = None
    """Instruction before every query text, such as "query: "; null is what the encoder's files state."""
    document_prefix: str | None = None
    """Instruction before every document text, such as "passage: "; null is what the encoder's files state."""
    index: Literal["exact", "hnsw"] = "exact"
    """How nearest documents are found; late_interaction, words and hybrid compare with all documents anyway."""
    multi_vector: str | None = None
    """Folder or hub name of a late-interaction model (ColBERT) that ranks all documents, too, in a row of its own,
    multi_vector."""
    reranker: str | None = None
    """Folder or hub name of a cross-encoder or late-interaction model (ColBERT) that reranks the results."""
    llm: str | None = None
    """Language model that answers from the results: a folder or a hub name."""
    votes: Literal["sum", "single"] = "sum"
    """sum adds up a document's votes; single counts its highest vote alone."""


@dataclass(frozen=True)
class FiltersSettings:
    """Extract a metadata filter from every question, and compare it with the reference filter, if there is one.

    The rules look for the corpus's values and for dates in the question; with --llm a language model writes the filter.
    A query's reference filter is its key "filter"; filters are extracted from queries without one, too.

    examples:
      python evaluate.py filters --queries queries.jsonl --fields fields.json --output filters.json
          fields.json holds the fields and values: {"source": {"type": "string", "values": ["Wired", ...]},
          "price": {"type": "number", "description": "price in euros"}, ...}; the rules find amounts by descriptions
      python evaluate.py filters --queries queries.jsonl --documents documents.jsonl --output filters.json
          takes fields and values from the documents' metadata
    """

    queries: str
    """JSONL file of questions."""
    output: str
    """Where to write the results (JSON)."""
    fields: str | None = None
    """JSON file of the fields, with their descriptions and values."""
    documents: str | None = None
    """JSONL file of the corpus to take fields and values from, in place of --fields."""
    llm: str | None = None
    """Language model that writes the filters: bundled (knows the bundled news), a folder or a hub name; null or none
    for the rules."""
    today: str | None = None
    """The day on which the questions are asked, such as 2026-11-30. Without it the rules leave "last week" and the like
    out."""

    def __post_init__(self) -> None:
        if (self.fields is None) == (self.documents is None):
            problem = "no fields" if self.fields is None else "--fields and --documents do not go together"
            raise InputError(f"{problem}; give --fields FIELDS.json or --documents DOCUMENTS.jsonl")


@dataclass(frozen=True)
class MultihopSettings(CheckedSettings, OnCluster):
    """Find chunks of news articles for questions about several of them, with each retrieval strategy, with and without
    the metadata filter that a question names, and with and without reranking; print tables. With --llm, the strategies
    fusion and fusion_mrag are compared, too, with queries that the language model writes (or with the questions' own
    "questions", if every question has some).

    documents and queries: none for the bundled news; two JSONL files; or MultiHop-RAG's corpus.json and
    MultiHopRAG.json. In JSONL a query has "relevant" (document ids), "facts" (the sentences that are the evidence), or
    both, and may have "answer", "question_type" (inference, comparison, temporal, null) and "filter".

    examples:
      python evaluate.py multihop --config configs/multihop.yaml
          the bundled news, filters by the rules
      python evaluate.py multihop --config configs/multihop.yaml --strategies standard mrag --fetch 40 --output out.json
      python evaluate.py multihop --output out.json --llm bundled --reranker BAAI/bge-reranker-large
          the language model extracts filters, too, and answers the questions
      python evaluate.py multihop --documents corpus.json --queries MultiHopRAG.json --output out.json \\
          --encoder BAAI/bge-large-en-v1.5 --prefix "Represent this sentence for searching relevant passages: "
    """

    output: str
    """Where to write the results (JSON)."""
    documents: str | None = None
    """JSONL file of documents, or MultiHop-RAG's corpus.json; null for the bundled news."""
    queries: str | None = None
    """JSONL file of questions, or MultiHopRAG.json; null for those of the bundled news."""
    strategies: tuple[str, ...] | None = None
    """Retrieval strategies; null is standard, words, mrag, late_interaction and hybrid, and with an LLM fusion and
    fusion_mrag."""
    fetch: int = bounded(20, minimum=1, maximum=10_000_000)
    """Chunks retrieved for a question."""
    passages: int = bounded(6, minimum=1, maximum=10_000)
    """Number of chunks that the LLM is shown."""
    answer_always: bool = False
    """Ask the LLM also where no chunk shown mentions what the question names; otherwise it is "Insufficient
    information."."""
    answer_retries: int = bounded(0, minimum=0, maximum=1000)
    """Further answers, sampled, where the LLM's states a number or a name that neither the question nor a chunk shown
    has; scored is the first that states fewest."""
    reranker: str | None = None
    """Folder or hub name of a cross-encoder or late-interaction model (ColBERT) that reranks the results."""
    llm: str | None = None
    """Extracts filters, writes queries and answers: bundled, a folder or a hub name; null or none for no LLM."""
    fusion_queries: int = 4
    """Queries that the LLM writes for a question, for fusion and fusion_mrag."""
    fusion_kept: int = bounded(0, minimum=0)
    """Places of the question's own ranking that stay first in fusion and fusion_mrag; 0, as published, fuses all."""
    heading: tuple[str, ...] = ()
    """Fields that stand above each chunk's text when it is embedded, searched for words and reranked: title, category
    or metadata. MultiHop-RAG's authors have title, source and published_at there."""
    chunk_tokens: int = 256
    """Maximum number of tokens in a chunk."""
    chunk_overlap: int = 32
    """Maximum number of tokens that two neighbouring chunks share."""
    embeddings: str | None = None
    """Folder where embeddings are kept between runs; null is embeddings, next to the output."""
    encoder: str = "all-MiniLM-L6-v2"
    """Folder or hub name of the encoder."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the encoder's weights."""
    quantization: Literal["nf4"] | None = None
    """nf4 quantizes the encoder's weights to 4 bits while it loads, for models of billions of weights."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""
    prefix: str | None = None
    """Instruction before every question, such as "query: "; null is what the encoder's files state."""
    document_prefix: str | None = None
    """Instruction before every document text, such as "passage: "; null is what the encoder's files state."""


@dataclass(frozen=True)
class QuestionSettings(CheckedSettings, OnCluster):
    """Answer questions from documents with RAG-Fusion, under the metadata filter that each question names, and show
    how: every query, the filter, the passages with source, date and their rank for each query, and the answer.

    examples:
      python evaluate.py ask --documents bundled --text "What did Kestrel Wire report on the harbour?" --llm none
          the bundled news; shows queries, filter and passages, no answer
      python evaluate.py ask --documents d.jsonl --index d.index --text "..."
          encodes the documents once; later, --index alone will do
      python evaluate.py ask --index d.index --json < questions.txt > answers.jsonl
      python evaluate.py ask --documents d.jsonl --index d.index --store postgresql://me@db.example.org/memories \\
          --text "..."
          the same with the index's vectors in PostgreSQL
      python evaluate.py ask --documents d.jsonl --text "..." --query "one of your own" --query "another"
      python evaluate.py ask --documents d.jsonl --text "..." --filter '{"source": {"$in": ["Wired"]}}'
      python evaluate.py ask --documents d.jsonl --text "..." --queries 0 --no-filter
          searches with the question alone
    """

    text: str | None = None
    """The question. Without it, questions are read from standard input, a line each, and each is answered as it comes;
    what takes seconds to load is loaded once. With --json, an answer is then one line."""
    documents: str | None = None
    """JSONL file, MultiHop-RAG's corpus.json, or bundled for the bundled news; may be left out if an index has them."""
    index: str | None = None
    """Folder of an index on disk, in which the documents are kept for the next question. With --documents it is built,
    or brought up to date with what was added, changed and removed; without, it is read as it is."""
    store: str | None = None
    """Address of a server that is to have the vectors of a new index: postgresql://USER@HOST/DATABASE,
    milvus+http://HOST:PORT or qdrant+http://HOST:PORT, without a password; null is the index's folder. See
    docs/stores.md."""
    allowed: tuple[str, ...] | None = None
    """Categories that may be read; null for all."""
    filter: str | None = None
    """A filter (JSON) in place of the one extracted from the question; never dropped, even if nothing passes it."""
    no_filter: bool = False
    """Search without a filter."""
    queries: int | None = None
    """Number of queries that the LLM writes; null is 4, 0 is none."""
    query: tuple[str, ...] | None = None
    """Queries of your own, 8 or fewer, in place of those that the LLM would write."""
    original_weight: float = 1.0
    """Weight of the original question's ranking (the others have 1)."""
    kept: int = bounded(4, minimum=0)
    """Places of the question's own ranking that stay first; the fused ranking has the others. 0 fuses all of them."""
    strategy: str = "hybrid"
    """Retrieval strategy for each query."""
    heading: tuple[str, ...] = ()
    """Fields that stand above each passage's text when it is embedded, searched for words and reranked, such as title,
    source and published_at."""
    passages: int = bounded(6, minimum=1, maximum=10_000)
    """Number of passages shown."""
    answer_always: bool = False
    """Ask the LLM also where no passage mentions what the question names."""
    answer_retries: int = bounded(4, minimum=0, maximum=1000)
    """Further answers, sampled, where the LLM's states a number or a name that neither the question nor a passage has;
    shown is the first that states fewest."""
    reranker: str | None = None
    """Folder or hub name of a cross-encoder or late-interaction model (ColBERT) that reranks the results."""
    llm: str = "bundled"
    """Writes the queries and the answer: bundled (knows the bundled news), a folder or a hub name; none for no LLM."""
    encoder: str = "all-MiniLM-L6-v2"
    """Folder or hub name of the encoder."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""
    prefix: str | None = None
    """Instruction before every query, such as "query: "; null is what the encoder's files state."""
    document_prefix: str | None = None
    """Instruction before every document text, such as "passage: "; null is what the encoder's files state."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for first, second, together in (
            ("--queries", "--query", self.queries is not None and self.query is not None),
            ("--query", "questions from standard input", self.query is not None and self.text is None),
            ("--filter", "--no-filter", self.filter is not None and self.no_filter),
        ):
            if together:
                raise InputError(f"{first} and {second} do not go together; give one of them")
        if self.store is not None:
            check_store_address(self.store)
            if self.documents is None or self.index is None:
                raise InputError("--store is for an index that is built; give --documents and --index, or leave it out")
