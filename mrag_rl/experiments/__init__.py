"""Experiments on retrieval, multi-hop questions, metadata filters and questions over documents."""
