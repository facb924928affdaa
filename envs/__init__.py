"""The two Markov decision processes of M-RAG on Gymnasium, single and batched.

Importing this package registers `mrag_rl/PartitionSelection-v0` and `mrag_rl/MemoryRefinement-v0`. Their database,
writer and metric are keyword arguments of `gymnasium.make` and `gymnasium.make_vec`.
"""

from mrag_rl.extras import require

require("train", "gymnasium", "nltk", "torch", "transformers", by=__name__)

from gymnasium.envs.registration import register

register(
    id="mrag_rl/PartitionSelection-v0",
    entry_point="mrag_rl.envs.partition_selection:PartitionSelectionEnv",
    vector_entry_point="mrag_rl.envs.partition_selection:PartitionSelectionVectorEnv",
    disable_env_checker=True,
)
register(
    id="mrag_rl/MemoryRefinement-v0",
    entry_point="mrag_rl.envs.memory_refinement:MemoryRefinementEnv",
    vector_entry_point="mrag_rl.envs.memory_refinement:MemoryRefinementVectorEnv",
    disable_env_checker=True,
)
