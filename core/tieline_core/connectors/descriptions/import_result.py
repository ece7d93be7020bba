"""The result of an import, in the contract's field names."""

from dataclasses import dataclass, field

from tieline_core.objects import Json


@dataclass(kw_only=True)
class ImportResult:
    """All that one description says, ready to be stored and answered."""

    digest: str
    """SHA-256 of the description's bytes."""
    openapi: str
    """The description's own version: 2.0, 3.0, 3.1 or 3.2; empty for GraphQL."""
    format: str = "openapi"
    """openapi or graphql."""
    title: str = ""
    """The API's name."""
    description: str = ""
    """What it is."""
    documentation_url: str = ""
    """Where it is documented."""
    image_url: str = ""
    """A picture of it (``x-logo``)."""
    base_url: str = ""
    """Its first server's URL, perhaps with variables in curly braces."""
    variables: list[Json] = field(default_factory=list)
    """Server variables with their defaults: {name, value}."""
    auth_schemes: list[Json] = field(default_factory=list)
    """Auth schemes: {id, type, description, validationMessages, <sub-object>}."""
    definitions: list[Json] = field(default_factory=list)
    """Named schemas, and bodies without a name; ``schema`` is the JSON Schema as it was written."""
    actions: list[Json] = field(default_factory=list)
    """Operations that can be called."""
    triggers: list[Json] = field(default_factory=list)
    """Webhooks and callbacks."""
    messages: list[Json] = field(default_factory=list)
    """What was found, the gravest first."""

    def summary(self) -> Json:
        """All but the long lists, with their counts."""
        return {
            "digest": self.digest,
            "openapi": self.openapi,
            "format": self.format,
            "title": self.title,
            "description": self.description,
            "documentationUrl": self.documentation_url,
            "imageUrl": self.image_url,
            "baseUrl": self.base_url,
            "variables": self.variables,
            "authSchemes": self.auth_schemes,
            "definitions": len(self.definitions),
            "actions": len(self.actions),
            "triggers": len(self.triggers),
            "messages": self.messages,
        }
