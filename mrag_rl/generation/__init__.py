"""Generation: prompts, LLM backends, sampling and the generation cache."""

from mrag_rl.extras import require

require("encode", "huggingface_hub", "torch", "tqdm", "transformers", by=__name__)

from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.fusion_prompts import answer_prompt, query_prompt
from mrag_rl.generation.llm import LLM, Usage
from mrag_rl.generation.prompts import TEMPLATES, OwnTask, Prompt, messages, render, template, translation
from mrag_rl.generation.writer import Writer

__all__ = [
    "LLM",
    "TEMPLATES",
    "CachedLLM",
    "OwnTask",
    "Prompt",
    "Usage",
    "Writer",
    "answer_prompt",
    "messages",
    "query_prompt",
    "render",
    "template",
    "translation",
]
