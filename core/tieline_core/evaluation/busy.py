"""What those are told who ask while too much waits."""


class EvaluationBusy(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """An evaluation cannot be made right now; try again in a moment."""
