"""Generation: prompts, LLM backends, sampling and the generation cache."""
