"""How API keys look: ``tlk_<organisation>_<256 random bits>``."""

import re

PREFIX = "tlk"
KEY = re.compile(rf"{PREFIX}_(?P<organisation>[0-9A-Za-z]{{26}})_[A-Za-z0-9_-]{{43}}")
