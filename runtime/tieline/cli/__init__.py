"""The ``tieline`` command: runs and checks a project locally. Pods do not import it."""
