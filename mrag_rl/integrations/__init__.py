"""Memories that Agent-S selects, in the frameworks that people have already: LangChain and LlamaIndex."""

from mrag_rl.integrations.memories import Found, SelectedMemories

__all__ = ["Found", "SelectedMemories"]
