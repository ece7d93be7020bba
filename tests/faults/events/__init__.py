"""Events under faults, without a cluster: pods and the engine are processes that are killed, paused and cut off."""
