"""The endpoint of the Model Context Protocol: tools for agents, over what the platform has already."""
