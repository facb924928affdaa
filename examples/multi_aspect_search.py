"""Find the documents for every aspect of a long query, and see what three strategies make of it.

    python -m examples.multi_aspect_search [--aspects 10]

The bundled articles; for documents and queries of your own, read them with `mrag_rl.data.multi_aspect.load_documents`
and `load_queries`, or put your texts in the place of theirs: `build` and `search` take plain strings.
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
retriever = MultiAspectRetriever.build(encoder, [document.text for document in documents], progress=True)
print(f"{query.text}\n")
for strategy in ("standard", "mrag", "late_interaction"):  # one vector; a list a head; each sentence in every head
    ranking = retriever.search(encoder, [query.text], strategy=strategy, fetch=2 * aspects)
    found = [documents[i] for i in ranking.indices[0]]  # a row a query, best document first
    hits = sum(document.id in query.relevant for document in found)
    print(f"{strategy}: {hits} of {aspects} among the first {len(found)}")
for document in found:
    print(f"  {'+' if document.id in query.relevant else ' '} {document.title} ({document.category})")
