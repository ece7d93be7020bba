"""What is asked of the index of runs."""
