"""A run's folder and what is done with one: evaluate it, pool several, ask one."""
