"""Memory databases in PostgreSQL with pgvector (extra: postgres)."""

from mrag_rl.extras import require

require("postgres", "psycopg", "pgvector", by=__name__)
