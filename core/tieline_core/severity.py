"""How much a finding matters: apart from the models, because importing those takes as long as an import."""

from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
