"""Inputs of a System: variables of its URLs that people fill in when they connect."""

from typing import Annotated

from pydantic import Field, StringConstraints

from tieline_core.resources.fields import Shape, ShortText, Text, list_map, list_set
from tieline_protocol.url_inputs import HOST_PATTERN, MAX_PATTERN, MAX_VALUE

MAX_INPUTS = 16
NAME_PATTERN = "^[A-Za-z0-9_-]+$"
ANCHORED = r"^\^.*\$$"
SUFFIX_PATTERN = r"^[A-Za-z0-9./_-]*$"

InputName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=NAME_PATTERN)]
InputPattern = Annotated[str, StringConstraints(min_length=2, max_length=MAX_PATTERN, pattern=ANCHORED)]
InputSuffix = Annotated[str, StringConstraints(max_length=128, pattern=SUFFIX_PATTERN)]
InputExample = Annotated[str, StringConstraints(max_length=MAX_VALUE)]
InputHost = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=HOST_PATTERN)]
InputHosts = Annotated[list[InputHost], Field(max_length=16)]


class SystemInput(Shape):
    """A variable of the System's URLs that people fill in, such as the name of their shop."""

    name: InputName
    """The variable's name, as it stands in curly braces in base, authorise, token and refresh URLs and in the path of
    the check request."""
    label: ShortText = ""
    """The name for people. Default: the variable's name."""
    description: Text = ""
    """What to enter, for people."""
    example: InputExample = ""
    """A value as an example, such as my-shop."""
    pattern: InputPattern | None = None
    """A regular expression for the whole value, from ^ to $, without look-around and back-references. Default: one
    part of a host name (letters, digits and hyphens). Values never hold other characters than letters, digits, '-',
    '.', '_' and '~'."""
    suffix: InputSuffix = ""
    """What follows the value in the URL, such as .myshopify.com. Forms show it, and cut a pasted address down to the
    value."""
    required: bool | None = None
    """Whether forms require a value. Default: true, unless spec.variables has a default."""
    hosts: Annotated[InputHosts, Field(json_schema_extra=list_set())] = []
    """Hosts that a URL with this variable in its host may lead to, such as *.example.com. Required where no fixed
    domain follows the variable."""


SystemInputs = Annotated[list[SystemInput], Field(max_length=MAX_INPUTS, json_schema_extra=list_map("name"))]
