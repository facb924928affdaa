"""Find the documents for every aspect of a long query with four strategies.

    python -m examples.multi_aspect_search [--aspects 10]

Uses the bundled articles. Read your own documents and queries with `mrag_rl.data.multi_aspect.load_documents` and
`load_queries`; `build` and `search` take any list of strings.
"""

import argparse

from mrag_rl.data.multi_aspect import ASPECTS
from mrag_rl.data.synthetic import make_articles
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.retrieval import MultiAspectRetriever

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--aspects", type=int, default=10, choices=ASPECTS)
aspects = parser.parse_args().aspects

documents, queries = make_articles(seed=0, per_category=4, queries_per_aspect=1)
query = next(query for query in queries if len(query.relevant) == aspects)
encoder = TransformerEncoder.load()
texts, titles = [document.text for document in documents], [document.title for document in documents]
retriever = MultiAspectRetriever.build(encoder, texts, titles=titles, progress=True)
print(f"{query.text}\n")
# One vector; one list for each head; every sentence in every head; every sentence by vectors and words
for strategy in ("standard", "mrag", "late_interaction", "hybrid"):
    ranking = retriever.search(encoder, [query.text], strategy=strategy, fetch=2 * aspects)
    results = [documents[i] for i in ranking.indices[0]]  # one row per query, best document first
    hits = sum(document.id in query.relevant for document in results)
    print(f"{strategy}: {hits} of {aspects} among the first {len(results)}")
for document in results:
    print(f"  {'+' if document.id in query.relevant else ' '} {document.title} ({document.category})")
