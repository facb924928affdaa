"""The bundled synthetic worlds: texts for the three tasks and the two retrieval settings, written from word lists.

- `make_newsroom`: pairs for summarization, translation and dialogue, whose style depends on a desk or a source.
- `make_articles`: articles in 25 categories, and stories about several of them.
- `make_news`: news articles, and questions that need one or more of them.

The same arguments always give the same texts.
"""

from mrag_rl.data.synthetic.articles import make_articles
from mrag_rl.data.synthetic.news import make_news
from mrag_rl.data.synthetic.newsroom import make_newsroom

__all__ = ["make_articles", "make_news", "make_newsroom"]
