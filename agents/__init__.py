"""The two DQNs on stable-baselines3, the heuristics to beat, and the joint training of Algorithm 1."""
