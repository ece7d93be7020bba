"""What authors write around most systems: pages of lists, reading only what is new, and work for many items."""
