"""What a project must be so that it can be deployed: one set of rules for the operator, the API and your own machine.

It stands alone and executes nothing of what it looks at.
"""
