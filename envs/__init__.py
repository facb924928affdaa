"""The two Markov decision processes of M-RAG on Gymnasium, single and batched.

Importing this package registers `mrag_rl/PartitionSelection-v0` and `mrag_rl/MemoryRefinement-v0`; their database,
language model and metric go in as keyword arguments of `gymnasium.make` (or `make_vec`, where `num_envs` is the
number of slots).
"""

from mrag_rl.extras import require

require("train", "gymnasium", "nltk", "torch", "transformers", by=__name__)

from gymnasium.envs.registration import register

register(
    id="mrag_rl/PartitionSelection-v0",
    entry_point="mrag_rl.envs.partition_selection:PartitionSelectionEnv",
    vector_entry_point="mrag_rl.envs.partition_selection:make_vector_env",
    disable_env_checker=True,
)
register(
    id="mrag_rl/MemoryRefinement-v0",
    entry_point="mrag_rl.envs.memory_refinement:MemoryRefinementEnv",
    vector_entry_point="mrag_rl.envs.memory_refinement:make_vector_env",
    disable_env_checker=True,
)
