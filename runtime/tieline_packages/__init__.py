"""The packages of a project's lock: installing them once, unpacking them in pods, and having code import them."""
