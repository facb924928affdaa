"""Read a question before it is searched: its filter, further queries, and what each of them finds.

    python -m examples.read_a_question [--question 3]

Uses the bundled news and the language model that knows it. For articles of your own, replace the news by
`load_documents("d.jsonl")` and the bundled language model by one of yours.
"""

import argparse

from mrag_rl.data.synthetic import make_news
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.filters import FieldVocabulary, RuleExtractor, to_json
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models.bundled import NEWS_QUESTION_LLM
from mrag_rl.systems import PassageReader, PassageRetriever, RAGFusion

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--question", type=int, default=1, choices=range(40), metavar="0...39")
number = parser.parse_args().question

documents, questions = make_news(seed=0, split="dev", events=12, queries=40)
question = questions[number]
extractor = RuleExtractor(FieldVocabulary.from_documents(documents))
retriever = PassageRetriever.build(documents, TransformerEncoder.load(), extractor=extractor, progress=True)
reader = PassageReader(TransformersLLM.load(NEWS_QUESTION_LLM))
(answer,) = RAGFusion(retriever, reader).answer([question.text])

print(f"\n{question.text}\n\nfilter   {to_json(answer.filter)}")
for query in answer.queries.generated:
    print(f"query    {query}")
for passage, places in zip(answer.passages, answer.places, strict=True):  # its place in each query's ranking
    mark = "+" if passage.document in question.relevant else " "
    source, day = passage.metadata["source"], str(passage.metadata["published_at"])[:10]
    print(f"{mark} {passage.title} ({source}, {day}) {places}")
print(f"answer   {answer.hypothesis}\nwanted   {question.metadata['answer']}")
for note in answer.notes:
    print(f"note     {note}")
