"""Types of answers about systems, connections and templates."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import StringConstraints

from tests.harness.clients.answers.base import Json, Message, Page, Strict, Time, Ulid


class Scheme(Strict):
    id: Annotated[str, StringConstraints(min_length=1)]
    description: str
    validation_messages: list[Message]


class ApiKey(Scheme):
    name: str


class Hmac(Scheme):
    name: str
    algorithm: Literal["sha1", "sha256", "sha512"]
    digest_inputs: list[Literal["body", "url"]]


class Client(Strict):
    credential_id: Ulid
    organisation_id: Ulid
    client_id: str


class Grant(Strict):
    type: Literal["authorizationCode", "clientCredentials", "password"]
    authorization_code: Client | None = None
    password: Client | None = None
    client_credentials: Json | None = None

    @property
    def client(self) -> Client | None:
        """The client of the grant's own type."""
        return self.password if self.type == "password" else self.authorization_code


class Scope(Strict):
    name: str
    description: str


class OAuth2(Scheme):
    token_url: str
    scopes: list[Scope]
    default_scopes: list[str]
    grant: Grant
    mtls_enabled: bool
    mtls_credential_id: Ulid | None = None
    pkce: bool


class OAuth1Parameter(Strict):
    parameter_name: str
    location: str
    usages: Literal["USAGE_UNKNOWN", "USAGE_TEMP_CREDENTIAL_ENDPOINT", "USAGE_TOKEN_REQUEST_ENDPOINT"]


class OAuth1Endpoint(Strict):
    url: str
    additional_param_configs: list[OAuth1Parameter]


class OAuth1(Scheme):
    consumer_key: str
    signature_method: str
    credential_id: Ulid
    token_endpoint: OAuth1Endpoint | None = None


SUB_OBJECTS: Mapping[str, tuple[str, type[Scheme]]] = {
    "none": ("none", Scheme),
    "api-key": ("apiKey", ApiKey),
    "basic-auth": ("basicAuth", Scheme),
    "oauth2": ("oauth2", OAuth2),
    "hmac": ("hmac", Hmac),
    "jwt-bearer": ("jwtBearer", Scheme),
    "certificate": ("certificate", Scheme),
    "oauth1": ("oauth1", OAuth1),
    "secret": ("secret", Scheme),
}


class SchemeConfig(Strict):
    type: Literal[
        "none", "api-key", "basic-auth", "oauth2", "hmac", "jwt-bearer", "certificate", "oauth1", "secret"
    ]

    def model_post_init(self, _context: object) -> None:
        key, model = SUB_OBJECTS[self.type]
        found = model.model_validate((self.model_extra or {})[key])
        if isinstance(found, OAuth2) and found.grant.type != "clientCredentials":
            assert found.grant.client is not None, "the grant has its client"


class System(Strict):
    id: Ulid
    name: str
    domain: str
    auth_scheme_configs: list[SchemeConfig]
    template_base_url: str


class Credential(Strict):
    id: Ulid
    organisation_id: Ulid
    type: Literal[
        "none", "string", "binary", "basic-auth", "oauth2-client", "oauth2-code", "oauth2-password", "oauth2-token",
        "oauth1", "certificate", "jwt-bearer",
    ]  # fmt: skip
    name: str
    errors: list[str] | None = None
    warnings: list[str] | None = None
    expires_at: Time | None = None


class ConnectionCredential(Strict):
    id: Ulid
    auth_scheme_config: SchemeConfig
    auth_scheme_config_id: str | None = None
    credential: Credential


class Variable(Strict):
    name: str
    value: str


class Connection(Strict):
    id: Ulid
    name: str
    credentials: list[ConnectionCredential]
    variables: list[Variable]
    created_at: Time
    updated_at: Time
    base_url: str | None = None
    system_id: Ulid | None = None
    connection_template_id: Ulid | None = None


class Template(Strict):
    id: Ulid
    name: str
    domain: str
    dynamic: bool
    auth_scheme_configs: list[SchemeConfig]
    template_base_url: str
    connection_template_id: Ulid


class Systems(Page):
    items: list[System]


class Connections(Page):
    items: list[Connection]


class Templates(Page):
    items: list[Template]


class UsingTemplate(Strict):
    connection_template_id: Ulid
    name: str
    project_id: Ulid | None = None
    project_name: str
    environment_id: Ulid | None = None
    environment_name: str


class UsingActivation(Strict):
    id: Ulid
    user_id: Ulid | None = None
    external_id: str
    display_name: str
    project_id: Ulid | None = None
    project_name: str
    environment_name: str


class ConnectionUses(Strict):
    templates: list[UsingTemplate]
    template_count: int
    activations: list[UsingActivation]
    activation_count: int


class ConnectionTestResult(Strict):
    ok: bool
    status: int | None = None
    message: str
