"""Names in requests: what people read must not look like something else."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from tieline_core.identity.display_names import ECMA_PATTERN, unreadable
from tieline_core.resources import connection_templates, connectors, end_users, fields, projects


def _readable(name: str) -> str:
    problem = unreadable(name)
    if problem is not None:
        raise ValueError(problem)
    return name


def _not_blank(name: str) -> str:
    if not name.strip():
        raise ValueError("must not be blank: give at least one character that is no space")
    return name


def _is_no_step(name: str) -> str:
    if name in (".", ".."):
        raise ValueError(f'must not be "{name}": clients take it for a step of the path')
    return name


def check_new_external_id(name: str) -> str:
    """``name``; ValueError with a sentence where no new user may have it as an external id."""
    return _is_no_step(_not_blank(_readable(name)))


def _env_name(name: str) -> str:
    if not re.fullmatch(projects.ENV_NAME_PATTERN, name):
        raise ValueError("must consist of letters, digits and underscores, and not begin with a digit")
    if name.startswith(projects.RESERVED_ENV):
        raise ValueError(f"must not begin with {projects.RESERVED_ENV}: such names are the platform's")
    return name


_CHARACTER = ECMA_PATTERN.removeprefix("^").removesuffix("*$")
_NOT_BLANK_PATTERN = rf"^{_CHARACTER}*{_CHARACTER.removesuffix(']')}\s]{_CHARACTER}*$"
_NAMED = (
    AfterValidator(_readable),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": _NOT_BLANK_PATTERN}),
)
_READABLE = (AfterValidator(_readable), Field(json_schema_extra={"pattern": ECMA_PATTERN}))

DisplayName = Annotated[fields.DisplayName, *_NAMED]
"""A name for people."""
ShortName = Annotated[fields.ShortText, *_READABLE]
"""A name for people that may be empty."""
TemplateName = Annotated[connection_templates.TemplateName, *_NAMED]
"""The name of a connection template."""
UserName = Annotated[end_users.UserName, *_READABLE]
"""The name of a user, which may be empty."""
VersionName = Annotated[connectors.VersionName, *_NAMED, AfterValidator(_is_no_step)]
"""The name of a connector's version, a step of paths."""
EnvName = Annotated[
    str,
    Field(min_length=1, max_length=256, json_schema_extra={"pattern": projects.ENV_NAME_PATTERN}),
    AfterValidator(_env_name),
]
"""The name of an environment variable."""
NewExternalId = Annotated[
    str,
    Field(min_length=1, max_length=256, json_schema_extra={"pattern": _NOT_BLANK_PATTERN}),
    AfterValidator(check_new_external_id),
]
"""The id of a new user in the customer's application, a step of paths."""
