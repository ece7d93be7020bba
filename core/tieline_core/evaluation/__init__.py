"""Evaluation of what users write, in limited processes: memory and CPU have bounds, and organisations get turns."""
