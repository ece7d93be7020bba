"""The custom resources as Kubernetes stores them: what caches and the API server hand out.

Generated from tieline_core.resources by `make manifests`; do not edit. Keys that an object may lack are NotRequired.
All are ReadOnly, because objects of caches are shared.
"""

from typing import Any, Literal, NotRequired

from typing_extensions import ReadOnly, TypedDict

from tieline_core.objects import ObjectMeta


class SystemInputDict(TypedDict):
    """A stored SystemInput."""

    name: ReadOnly[str]
    label: NotRequired[ReadOnly[str]]
    description: NotRequired[ReadOnly[str]]
    example: NotRequired[ReadOnly[str]]
    pattern: NotRequired[ReadOnly[str]]
    suffix: NotRequired[ReadOnly[str]]
    required: NotRequired[ReadOnly[bool]]
    hosts: NotRequired[ReadOnly[list[str]]]


class ConnectorReferenceDict(TypedDict):
    """A stored ConnectorReference."""

    name: ReadOnly[str]
    version: NotRequired[ReadOnly[str]]


LimitAnswerDict = TypedDict(
    "LimitAnswerDict",
    {
        "status": NotRequired[ReadOnly[int]],
        "path": NotRequired[ReadOnly[str]],
        "equals": NotRequired[ReadOnly[str]],
        "in": NotRequired[ReadOnly[list[str]]],
        "remaining": NotRequired[ReadOnly[str]],
        "header": NotRequired[ReadOnly[str]],
        "resetPath": NotRequired[ReadOnly[str]],
        "unit": NotRequired[
            ReadOnly[
                Literal["seconds", "milliseconds", "epochSeconds", "epochMilliseconds", "iso8601", "httpDate"]
            ]
        ],
        "wait": NotRequired[ReadOnly[str]],
    },
)


class LimitCostDict(TypedDict):
    """A stored LimitCost."""

    requested: NotRequired[ReadOnly[str]]
    available: ReadOnly[str]
    restoreRate: NotRequired[ReadOnly[str]]
    reset: NotRequired[ReadOnly[str]]


class SystemLimitsDict(TypedDict):
    """A stored SystemLimits."""

    concurrent: NotRequired[ReadOnly[int]]
    requests: NotRequired[ReadOnly[int]]
    per: NotRequired[ReadOnly[str]]
    answers: NotRequired[ReadOnly[list[LimitAnswerDict]]]
    cost: NotRequired[ReadOnly[LimitCostDict]]


class FollowingPagesDict(TypedDict):
    """A stored FollowingPages."""

    path: NotRequired[ReadOnly[str]]
    keep: NotRequired[ReadOnly[list[str]]]
    parameters: NotRequired[ReadOnly[dict[str, str]]]


class ListDialectDict(TypedDict):
    """A stored ListDialect."""

    kind: ReadOnly[Literal["cursor", "link", "numbered", "offset", "lastId", "odata", "graphql"]]
    items: NotRequired[ReadOnly[str]]
    parameter: NotRequired[ReadOnly[str]]
    parameterIn: NotRequired[ReadOnly[Literal["query", "body"]]]
    next: NotRequired[ReadOnly[str]]
    nextHeader: NotRequired[ReadOnly[str]]
    nextRelation: NotRequired[ReadOnly[str]]
    nextIsUrl: NotRequired[ReadOnly[bool]]
    endValue: NotRequired[ReadOnly[str]]
    absentAtEnd: NotRequired[ReadOnly[bool]]
    start: NotRequired[ReadOnly[int]]
    limitParameter: NotRequired[ReadOnly[str]]
    limit: NotRequired[ReadOnly[int]]
    hasMore: NotRequired[ReadOnly[str]]
    total: NotRequired[ReadOnly[str]]
    totalHeader: NotRequired[ReadOnly[str]]
    totalPages: NotRequired[ReadOnly[str]]
    totalPagesHeader: NotRequired[ReadOnly[str]]
    lastId: NotRequired[ReadOnly[str]]
    following: NotRequired[ReadOnly[FollowingPagesDict]]


class ListPathDialectDict(TypedDict):
    """A stored ListPathDialect."""

    kind: ReadOnly[Literal["cursor", "link", "numbered", "offset", "lastId", "odata", "graphql"]]
    items: NotRequired[ReadOnly[str]]
    parameter: NotRequired[ReadOnly[str]]
    parameterIn: NotRequired[ReadOnly[Literal["query", "body"]]]
    next: NotRequired[ReadOnly[str]]
    nextHeader: NotRequired[ReadOnly[str]]
    nextRelation: NotRequired[ReadOnly[str]]
    nextIsUrl: NotRequired[ReadOnly[bool]]
    endValue: NotRequired[ReadOnly[str]]
    absentAtEnd: NotRequired[ReadOnly[bool]]
    start: NotRequired[ReadOnly[int]]
    limitParameter: NotRequired[ReadOnly[str]]
    limit: NotRequired[ReadOnly[int]]
    hasMore: NotRequired[ReadOnly[str]]
    total: NotRequired[ReadOnly[str]]
    totalHeader: NotRequired[ReadOnly[str]]
    totalPages: NotRequired[ReadOnly[str]]
    totalPagesHeader: NotRequired[ReadOnly[str]]
    lastId: NotRequired[ReadOnly[str]]
    following: NotRequired[ReadOnly[FollowingPagesDict]]
    path: ReadOnly[str]


class ListsDict(TypedDict):
    """A stored Lists."""

    default: NotRequired[ReadOnly[ListDialectDict]]
    paths: NotRequired[ReadOnly[list[ListPathDialectDict]]]


class CheckExpectationDict(TypedDict):
    """A stored CheckExpectation."""

    statuses: NotRequired[ReadOnly[list[int]]]
    contains: NotRequired[ReadOnly[str]]


class ConnectionCheckDict(TypedDict):
    """A stored ConnectionCheck."""

    method: NotRequired[ReadOnly[Literal["GET", "HEAD", "OPTIONS", "POST"]]]
    path: ReadOnly[str]
    body: NotRequired[ReadOnly[str]]
    expect: NotRequired[ReadOnly[CheckExpectationDict]]


class PlaceholderDict(TypedDict):
    """A stored Placeholder."""


ApiKeyDict = TypedDict(
    "ApiKeyDict",
    {
        "name": ReadOnly[str],
        "in": ReadOnly[Literal["query", "header", "cookie"]],
        "prefix": NotRequired[ReadOnly[str]],
        "headers": NotRequired[ReadOnly[dict[str, str]]],
    },
)


class BasicAuthDict(TypedDict):
    """A stored BasicAuth."""

    headers: NotRequired[ReadOnly[dict[str, str]]]


KeptParameterDict = TypedDict(
    "KeptParameterDict",
    {
        "as": NotRequired[ReadOnly[Literal["baseUrl", "accountId", "accountName"]]],
        "variable": NotRequired[ReadOnly[str]],
        "pattern": NotRequired[ReadOnly[str]],
        "overrides": NotRequired[ReadOnly[bool]],
        "parameter": ReadOnly[str],
    },
)


class ExpectedParameterDict(TypedDict):
    """A stored ExpectedParameter."""

    parameter: ReadOnly[str]
    value: ReadOnly[str]


class CallbackSignatureDict(TypedDict):
    """A stored CallbackSignature."""

    parameter: ReadOnly[str]
    encoding: NotRequired[ReadOnly[Literal["hex", "base64"]]]
    unsigned: NotRequired[ReadOnly[list[str]]]
    expect: NotRequired[ReadOnly[list[ExpectedParameterDict]]]
    timestampParameter: NotRequired[ReadOnly[str]]
    maxAge: NotRequired[ReadOnly[str]]


class AuthorizationDialectDict(TypedDict):
    """A stored AuthorizationDialect."""

    offlineAccess: NotRequired[ReadOnly[Literal["scope", "parameters", "none"]]]
    offlineParameters: NotRequired[ReadOnly[str]]
    prompts: NotRequired[ReadOnly[list[str]]]
    prompt: NotRequired[ReadOnly[str]]
    clientId: NotRequired[ReadOnly[str]]
    clientIdParameter: NotRequired[ReadOnly[str]]
    scopeParameter: NotRequired[ReadOnly[str]]
    codeParameter: NotRequired[ReadOnly[str]]
    errorParameters: NotRequired[ReadOnly[list[str]]]
    omit: NotRequired[ReadOnly[list[str]]]
    keep: NotRequired[ReadOnly[list[KeptParameterDict]]]
    grantsPerAccount: NotRequired[ReadOnly[int]]
    callbackSignature: NotRequired[ReadOnly[CallbackSignatureDict]]


class GrantTypesDict(TypedDict):
    """A stored GrantTypes."""

    authorizationCode: NotRequired[ReadOnly[str]]
    clientCredentials: NotRequired[ReadOnly[str]]
    password: NotRequired[ReadOnly[str]]
    refresh: NotRequired[ReadOnly[str]]


class LongLivedExchangeDict(TypedDict):
    """A stored LongLivedExchange."""

    url: ReadOnly[str]
    method: NotRequired[ReadOnly[Literal["POST", "GET"]]]
    grantType: ReadOnly[str]
    tokenParameter: NotRequired[ReadOnly[str]]
    omit: NotRequired[ReadOnly[list[str]]]


class TokenRequestDialectDict(TypedDict):
    """A stored TokenRequestDialect."""

    format: NotRequired[ReadOnly[Literal["form", "json"]]]
    clientIdParameter: NotRequired[ReadOnly[str]]
    clientSecretParameter: NotRequired[ReadOnly[str]]
    codeParameter: NotRequired[ReadOnly[str]]
    headers: NotRequired[ReadOnly[dict[str, str]]]
    grantTypes: NotRequired[ReadOnly[GrantTypesDict]]
    codeParameters: NotRequired[ReadOnly[str]]
    refreshParameters: NotRequired[ReadOnly[str]]
    omit: NotRequired[ReadOnly[list[str]]]
    longLived: NotRequired[ReadOnly[LongLivedExchangeDict]]


AnswerConditionDict = TypedDict(
    "AnswerConditionDict",
    {
        "status": NotRequired[ReadOnly[int]],
        "path": NotRequired[ReadOnly[str]],
        "equals": NotRequired[ReadOnly[str]],
        "in": NotRequired[ReadOnly[list[str]]],
    },
)


KeptValueDict = TypedDict(
    "KeptValueDict",
    {
        "as": NotRequired[ReadOnly[Literal["baseUrl", "accountId", "accountName"]]],
        "variable": NotRequired[ReadOnly[str]],
        "pattern": NotRequired[ReadOnly[str]],
        "overrides": NotRequired[ReadOnly[bool]],
        "path": ReadOnly[str],
    },
)


class TokenAnswerDialectDict(TypedDict):
    """A stored TokenAnswerDialect."""

    accessToken: NotRequired[ReadOnly[str]]
    refreshToken: NotRequired[ReadOnly[str]]
    scope: NotRequired[ReadOnly[str]]
    scopeSeparator: NotRequired[ReadOnly[str]]
    expiresIn: NotRequired[ReadOnly[str]]
    expiresUnit: NotRequired[
        ReadOnly[Literal["seconds", "milliseconds", "epochSeconds", "epochMilliseconds", "iso8601", "jwt"]]
    ]
    expiresAfter: NotRequired[ReadOnly[str]]
    success: NotRequired[ReadOnly[AnswerConditionDict]]
    error: NotRequired[ReadOnly[str]]
    errorDescription: NotRequired[ReadOnly[str]]
    keep: NotRequired[ReadOnly[list[KeptValueDict]]]


class RefreshDialectDict(TypedDict):
    """A stored RefreshDialect."""

    method: NotRequired[ReadOnly[Literal["POST", "GET"]]]
    token: NotRequired[ReadOnly[Literal["refreshToken", "accessToken"]]]
    tokenParameter: NotRequired[ReadOnly[str]]
    omit: NotRequired[ReadOnly[list[str]]]
    retryOn: NotRequired[ReadOnly[list[str]]]
    revokedOn: NotRequired[ReadOnly[list[str]]]
    earliest: NotRequired[ReadOnly[str]]
    minimumAge: NotRequired[ReadOnly[str]]
    graceForOldToken: NotRequired[ReadOnly[str]]


ClientSecretUseDict = TypedDict(
    "ClientSecretUseDict",
    {
        "in": NotRequired[ReadOnly[Literal["header", "query"]]],
        "name": ReadOnly[str],
        "prefix": NotRequired[ReadOnly[str]],
    },
)


TokenUseDict = TypedDict(
    "TokenUseDict",
    {
        "in": NotRequired[ReadOnly[Literal["header", "query"]]],
        "name": NotRequired[ReadOnly[str]],
        "prefix": NotRequired[ReadOnly[str]],
        "headers": NotRequired[ReadOnly[dict[str, str]]],
        "clientSecret": NotRequired[ReadOnly[ClientSecretUseDict]],
    },
)


class RejectionDialectDict(TypedDict):
    """A stored RejectionDialect."""

    expired: NotRequired[ReadOnly[list[AnswerConditionDict]]]
    revoked: NotRequired[ReadOnly[list[AnswerConditionDict]]]


class AfterTokenDict(TypedDict):
    """A stored AfterToken."""

    url: ReadOnly[str]
    method: NotRequired[ReadOnly[Literal["POST", "GET"]]]
    body: NotRequired[ReadOnly[str]]
    headers: NotRequired[ReadOnly[dict[str, str]]]
    keep: ReadOnly[list[KeptValueDict]]
    required: NotRequired[ReadOnly[bool]]


class UninstallDict(TypedDict):
    """A stored Uninstall."""

    clientId: NotRequired[ReadOnly[str]]
    accountId: ReadOnly[str]


class OAuth2ScopeDict(TypedDict):
    """A stored OAuth2Scope."""

    name: ReadOnly[str]
    description: NotRequired[ReadOnly[str]]


class ReferenceDict(TypedDict):
    """A stored Reference."""

    name: ReadOnly[str]


class OAuth2ClientDict(TypedDict):
    """A stored OAuth2Client."""

    credentialId: NotRequired[ReadOnly[str]]
    organisationId: NotRequired[ReadOnly[str]]
    clientId: NotRequired[ReadOnly[str]]
    secretRef: NotRequired[ReadOnly[ReferenceDict]]


class OAuth2GrantDict(TypedDict):
    """A stored OAuth2Grant."""

    type: ReadOnly[Literal["authorizationCode", "clientCredentials", "password"]]
    authorizationCode: NotRequired[ReadOnly[OAuth2ClientDict]]
    clientCredentials: NotRequired[ReadOnly[PlaceholderDict]]
    password: NotRequired[ReadOnly[OAuth2ClientDict]]


class OAuth2Dict(TypedDict):
    """A stored OAuth2."""

    scopeSeparator: NotRequired[ReadOnly[str]]
    hosts: NotRequired[ReadOnly[list[str]]]
    authorization: NotRequired[ReadOnly[AuthorizationDialectDict]]
    tokenRequest: NotRequired[ReadOnly[TokenRequestDialectDict]]
    tokenAnswer: NotRequired[ReadOnly[TokenAnswerDialectDict]]
    refresh: NotRequired[ReadOnly[RefreshDialectDict]]
    token: NotRequired[ReadOnly[TokenUseDict]]
    rejections: NotRequired[ReadOnly[RejectionDialectDict]]
    afterToken: NotRequired[ReadOnly[AfterTokenDict]]
    uninstall: NotRequired[ReadOnly[UninstallDict]]
    tokenUrl: ReadOnly[str]
    authorizeUrl: NotRequired[ReadOnly[str]]
    refreshUrl: NotRequired[ReadOnly[str]]
    scopes: NotRequired[ReadOnly[list[OAuth2ScopeDict]]]
    defaultScopes: NotRequired[ReadOnly[list[str]]]
    grant: ReadOnly[OAuth2GrantDict]
    additionalAuthorizeParams: NotRequired[ReadOnly[str]]
    additionalTokenParams: NotRequired[ReadOnly[str]]
    clientAuthentication: NotRequired[ReadOnly[str]]
    mtlsEnabled: NotRequired[ReadOnly[bool]]
    mtlsCredentialId: NotRequired[ReadOnly[str]]
    pkce: NotRequired[ReadOnly[bool]]


class ChallengeDict(TypedDict):
    """A stored Challenge."""

    method: NotRequired[ReadOnly[str]]
    proof: NotRequired[ReadOnly[str]]
    proofIn: NotRequired[ReadOnly[str]]
    when: NotRequired[ReadOnly[list[str]]]
    value: NotRequired[ReadOnly[str]]
    status: NotRequired[ReadOnly[int]]
    body: NotRequired[ReadOnly[str]]
    contentType: NotRequired[ReadOnly[str]]
    header: NotRequired[ReadOnly[str]]


class FixedAnswerDict(TypedDict):
    """A stored FixedAnswer."""

    status: ReadOnly[int]
    body: NotRequired[ReadOnly[str]]
    contentType: NotRequired[ReadOnly[str]]


HmacDict = TypedDict(
    "HmacDict",
    {
        "preset": NotRequired[ReadOnly[str]],
        "name": NotRequired[ReadOnly[str]],
        "in": NotRequired[ReadOnly[str]],
        "otherNames": NotRequired[ReadOnly[list[str]]],
        "algorithm": NotRequired[ReadOnly[str]],
        "digestInputs": NotRequired[ReadOnly[list[str]]],
        "encoding": NotRequired[ReadOnly[str]],
        "signatureFormat": NotRequired[ReadOnly[str]],
        "signatureField": NotRequired[ReadOnly[str]],
        "separator": NotRequired[ReadOnly[str]],
        "prefix": NotRequired[ReadOnly[str]],
        "timestampHeader": NotRequired[ReadOnly[str]],
        "timestampField": NotRequired[ReadOnly[str]],
        "timestampPath": NotRequired[ReadOnly[str]],
        "timestampUnit": NotRequired[ReadOnly[str]],
        "toleranceSeconds": NotRequired[ReadOnly[int]],
        "idHeader": NotRequired[ReadOnly[str]],
        "idPath": NotRequired[ReadOnly[str]],
        "keyEncoding": NotRequired[ReadOnly[str]],
        "keyPrefix": NotRequired[ReadOnly[str]],
        "bodyHash": NotRequired[ReadOnly[str]],
        "queryHashClaim": NotRequired[ReadOnly[str]],
        "challenges": NotRequired[ReadOnly[list[ChallengeDict]]],
        "answer": NotRequired[ReadOnly[FixedAnswerDict]],
        "refusal": NotRequired[ReadOnly[FixedAnswerDict]],
    },
)


class JwtBearerDict(TypedDict):
    """A stored JwtBearer."""

    algorithm: ReadOnly[
        Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]
    ]
    payload: NotRequired[ReadOnly[dict[str, Any]]]
    expiresIn: NotRequired[ReadOnly[int]]
    authorizationHeaderPrefix: NotRequired[ReadOnly[str]]


class OAuth1ParameterDict(TypedDict):
    """A stored OAuth1Parameter."""

    parameterName: ReadOnly[str]
    location: NotRequired[
        ReadOnly[
            Literal[
                "LOCATION_IGNORE",
                "LOCATION_BODY",
                "LOCATION_HEADER",
                "LOCATION_QUERY",
                "LOCATION_ENDPOINT",
                "LOCATION_HEADER_PARAMETER",
            ]
        ]
    ]
    required: NotRequired[ReadOnly[bool]]
    modifiable: NotRequired[ReadOnly[bool]]
    value: NotRequired[ReadOnly[str]]
    targetName: NotRequired[ReadOnly[str]]
    usages: NotRequired[
        ReadOnly[Literal["USAGE_UNKNOWN", "USAGE_TEMP_CREDENTIAL_ENDPOINT", "USAGE_TOKEN_REQUEST_ENDPOINT"]]
    ]


class OAuth1EndpointDict(TypedDict):
    """A stored OAuth1Endpoint."""

    url: ReadOnly[str]
    additionalParamConfigs: NotRequired[ReadOnly[list[OAuth1ParameterDict]]]
    parameterTransmission: NotRequired[
        ReadOnly[Literal["AUTH_STYLE_AUTHORIZATION_HEADER", "AUTH_STYLE_FORM", "AUTH_STYLE_QUERY"]]
    ]


class OAuth1Dict(TypedDict):
    """A stored OAuth1."""

    consumerKey: NotRequired[ReadOnly[str]]
    signatureMethod: NotRequired[ReadOnly[str]]
    credentialId: NotRequired[ReadOnly[str]]
    secretRef: NotRequired[ReadOnly[ReferenceDict]]
    tempCredentialEndpoint: NotRequired[ReadOnly[OAuth1EndpointDict]]
    resourceOwnerAuthorizationEndpoint: NotRequired[ReadOnly[OAuth1EndpointDict]]
    tokenEndpoint: NotRequired[ReadOnly[OAuth1EndpointDict]]


SharedSecretDict = TypedDict(
    "SharedSecretDict",
    {
        "name": ReadOnly[str],
        "in": ReadOnly[Literal["header", "query", "cookie", "body"]],
    },
)


class AuthSchemeConfigDict(TypedDict):
    """A stored AuthSchemeConfig."""

    id: ReadOnly[str]
    type: ReadOnly[
        Literal[
            "none",
            "api-key",
            "basic-auth",
            "oauth2",
            "hmac",
            "jwt-bearer",
            "certificate",
            "oauth1",
            "secret",
        ]
    ]
    description: NotRequired[ReadOnly[str]]
    none: NotRequired[ReadOnly[PlaceholderDict]]
    apiKey: NotRequired[ReadOnly[ApiKeyDict]]
    basicAuth: NotRequired[ReadOnly[BasicAuthDict]]
    oauth2: NotRequired[ReadOnly[OAuth2Dict]]
    hmac: NotRequired[ReadOnly[HmacDict]]
    jwtBearer: NotRequired[ReadOnly[JwtBearerDict]]
    certificate: NotRequired[ReadOnly[PlaceholderDict]]
    oauth1: NotRequired[ReadOnly[OAuth1Dict]]
    secret: NotRequired[ReadOnly[SharedSecretDict]]


class SystemSpecDict(TypedDict):
    """A stored SystemSpec."""

    name: ReadOnly[str]
    domain: NotRequired[ReadOnly[str]]
    templateBaseUrl: NotRequired[ReadOnly[str]]
    variables: NotRequired[ReadOnly[dict[str, str]]]
    inputs: NotRequired[ReadOnly[list[SystemInputDict]]]
    connectorRef: NotRequired[ReadOnly[ConnectorReferenceDict]]
    limits: NotRequired[ReadOnly[SystemLimitsDict]]
    lists: NotRequired[ReadOnly[ListsDict]]
    graphqlPath: NotRequired[ReadOnly[str]]
    check: NotRequired[ReadOnly[ConnectionCheckDict]]
    labels: NotRequired[ReadOnly[dict[str, str]]]
    authSchemeConfigs: NotRequired[ReadOnly[list[AuthSchemeConfigDict]]]


class ConditionDict(TypedDict):
    """A stored Condition."""

    type: ReadOnly[str]
    status: ReadOnly[str]
    observedGeneration: NotRequired[ReadOnly[int]]
    lastTransitionTime: ReadOnly[str]
    reason: ReadOnly[str]
    message: ReadOnly[str]


class ValidationMessageDict(TypedDict):
    """A stored ValidationMessage."""

    text: ReadOnly[str]
    severity: ReadOnly[Literal["info", "warning", "error"]]
    detail: NotRequired[ReadOnly[list[str]]]


class AuthSchemeStatusDict(TypedDict):
    """A stored AuthSchemeStatus."""

    id: ReadOnly[str]
    validationMessages: NotRequired[ReadOnly[list[ValidationMessageDict]]]


class UrlVariableDict(TypedDict):
    """A stored UrlVariable."""

    name: ReadOnly[str]
    value: ReadOnly[str]


class FromConnectorDict(TypedDict):
    """A stored FromConnector."""

    version: ReadOnly[str]
    baseUrl: NotRequired[ReadOnly[str]]
    domain: NotRequired[ReadOnly[str]]
    variables: NotRequired[ReadOnly[list[UrlVariableDict]]]
    authSchemeConfigs: NotRequired[ReadOnly[list[dict[str, Any]]]]


class SystemStatusDict(TypedDict):
    """A stored SystemStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    authSchemes: NotRequired[ReadOnly[list[AuthSchemeStatusDict]]]
    fromConnector: NotRequired[ReadOnly[FromConnectorDict]]


class ConnectionTemplateSpecDict(TypedDict):
    """A stored ConnectionTemplateSpec."""

    name: ReadOnly[str]
    projectRef: ReadOnly[ReferenceDict]
    environment: ReadOnly[str]
    systemRef: ReadOnly[ReferenceDict]
    dynamic: NotRequired[ReadOnly[bool]]
    connectionRef: NotRequired[ReadOnly[ReferenceDict]]
    authSchemeConfigIds: NotRequired[ReadOnly[list[str]]]
    exposeToCode: NotRequired[ReadOnly[bool]]


class ConnectionTemplateStatusDict(TypedDict):
    """A stored ConnectionTemplateStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    environmentId: NotRequired[ReadOnly[str]]
    name: NotRequired[ReadOnly[str]]


class LimitsDict(TypedDict):
    """A stored Limits."""

    concurrent: NotRequired[ReadOnly[int]]
    requests: NotRequired[ReadOnly[int]]
    per: NotRequired[ReadOnly[str]]


class ConnectionCredentialDict(TypedDict):
    """A stored ConnectionCredential."""

    id: ReadOnly[str]
    name: NotRequired[ReadOnly[str]]
    credentialId: NotRequired[ReadOnly[str]]
    type: ReadOnly[
        Literal[
            "none",
            "string",
            "binary",
            "basic-auth",
            "oauth2-client",
            "oauth2-code",
            "oauth2-password",
            "oauth2-token",
            "oauth1",
            "certificate",
            "jwt-bearer",
        ]
    ]
    authSchemeConfigId: NotRequired[ReadOnly[str]]
    authSchemeConfig: NotRequired[ReadOnly[AuthSchemeConfigDict]]
    secretRef: NotRequired[ReadOnly[ReferenceDict]]
    expiresAt: NotRequired[ReadOnly[str]]


class AgentToolsDict(TypedDict):
    """A stored AgentTools."""

    read: NotRequired[ReadOnly[bool]]
    operations: NotRequired[ReadOnly[list[str]]]


class ConnectionSpecDict(TypedDict):
    """A stored ConnectionSpec."""

    name: ReadOnly[str]
    systemRef: ReadOnly[ReferenceDict]
    connectionTemplateRef: NotRequired[ReadOnly[ReferenceDict]]
    endUserRef: NotRequired[ReadOnly[ReferenceDict]]
    baseUrl: NotRequired[ReadOnly[str]]
    variables: NotRequired[ReadOnly[dict[str, str]]]
    limits: NotRequired[ReadOnly[LimitsDict]]
    credentials: NotRequired[ReadOnly[list[ConnectionCredentialDict]]]
    exposeToCode: NotRequired[ReadOnly[bool]]
    tools: NotRequired[ReadOnly[AgentToolsDict]]


class CredentialStatusDict(TypedDict):
    """A stored CredentialStatus."""

    id: ReadOnly[str]
    errors: NotRequired[ReadOnly[list[str]]]
    warnings: NotRequired[ReadOnly[list[str]]]
    validationMessages: NotRequired[ReadOnly[list[ValidationMessageDict]]]
    expired: NotRequired[ReadOnly[bool]]
    mtlsCredentialId: NotRequired[ReadOnly[str]]


class ConnectionStatusDict(TypedDict):
    """A stored ConnectionStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    name: NotRequired[ReadOnly[str]]
    credentials: NotRequired[ReadOnly[list[CredentialStatusDict]]]


class InlineFileDict(TypedDict):
    """A stored InlineFile."""

    filename: ReadOnly[str]
    content: ReadOnly[str]


class KeyToPathDict(TypedDict):
    """A stored KeyToPath."""

    key: ReadOnly[str]
    path: ReadOnly[str]


class FilesConfigMapDict(TypedDict):
    """A stored FilesConfigMap."""

    name: ReadOnly[str]
    items: NotRequired[ReadOnly[list[KeyToPathDict]]]


class SourceReferenceDict(TypedDict):
    """A stored SourceReference."""

    kind: ReadOnly[Literal["GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"]]
    name: ReadOnly[str]
    path: NotRequired[ReadOnly[str]]


class ProjectSourceDict(TypedDict):
    """A stored ProjectSource."""

    files: NotRequired[ReadOnly[list[InlineFileDict]]]
    configMaps: NotRequired[ReadOnly[list[FilesConfigMapDict]]]
    sourceRef: NotRequired[ReadOnly[SourceReferenceDict]]


class ProjectSettingsDict(TypedDict):
    """A stored ProjectSettings."""

    acceptCodeChangesAutomatically: NotRequired[ReadOnly[bool]]
    keepInputs: NotRequired[ReadOnly[bool]]


class TolerationDict(TypedDict):
    """A stored Toleration."""

    key: NotRequired[ReadOnly[str]]
    operator: NotRequired[ReadOnly[Literal["Equal", "Exists"]]]
    value: NotRequired[ReadOnly[str]]
    effect: NotRequired[ReadOnly[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]]]
    tolerationSeconds: NotRequired[ReadOnly[int]]


class NodeSelectorRequirementDict(TypedDict):
    """A stored NodeSelectorRequirement."""

    key: ReadOnly[str]
    operator: ReadOnly[Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]]
    values: NotRequired[ReadOnly[list[str]]]


class NodeSelectorTermDict(TypedDict):
    """A stored NodeSelectorTerm."""

    matchExpressions: ReadOnly[list[NodeSelectorRequirementDict]]


class NodeSelectorTermsDict(TypedDict):
    """A stored NodeSelectorTerms."""

    nodeSelectorTerms: ReadOnly[list[NodeSelectorTermDict]]


class PreferredSchedulingTermDict(TypedDict):
    """A stored PreferredSchedulingTerm."""

    weight: ReadOnly[int]
    preference: ReadOnly[NodeSelectorTermDict]


class NodeAffinityDict(TypedDict):
    """A stored NodeAffinity."""

    requiredDuringSchedulingIgnoredDuringExecution: NotRequired[ReadOnly[NodeSelectorTermsDict]]
    preferredDuringSchedulingIgnoredDuringExecution: NotRequired[ReadOnly[list[PreferredSchedulingTermDict]]]


class LabelSelectorRequirementDict(TypedDict):
    """A stored LabelSelectorRequirement."""

    key: ReadOnly[str]
    operator: ReadOnly[Literal["In", "NotIn", "Exists", "DoesNotExist"]]
    values: NotRequired[ReadOnly[list[str]]]


class LabelSelectorDict(TypedDict):
    """A stored LabelSelector."""

    matchLabels: NotRequired[ReadOnly[dict[str, str]]]
    matchExpressions: NotRequired[ReadOnly[list[LabelSelectorRequirementDict]]]


class PodAffinityTermDict(TypedDict):
    """A stored PodAffinityTerm."""

    labelSelector: NotRequired[ReadOnly[LabelSelectorDict]]
    topologyKey: ReadOnly[str]


class WeightedPodAffinityTermDict(TypedDict):
    """A stored WeightedPodAffinityTerm."""

    weight: ReadOnly[int]
    podAffinityTerm: ReadOnly[PodAffinityTermDict]


class PodAffinityDict(TypedDict):
    """A stored PodAffinity."""

    requiredDuringSchedulingIgnoredDuringExecution: NotRequired[ReadOnly[list[PodAffinityTermDict]]]
    preferredDuringSchedulingIgnoredDuringExecution: NotRequired[ReadOnly[list[WeightedPodAffinityTermDict]]]


class AffinityDict(TypedDict):
    """A stored Affinity."""

    nodeAffinity: NotRequired[ReadOnly[NodeAffinityDict]]
    podAffinity: NotRequired[ReadOnly[PodAffinityDict]]
    podAntiAffinity: NotRequired[ReadOnly[PodAffinityDict]]


class TopologySpreadConstraintDict(TypedDict):
    """A stored TopologySpreadConstraint."""

    maxSkew: ReadOnly[int]
    topologyKey: ReadOnly[str]
    whenUnsatisfiable: ReadOnly[Literal["DoNotSchedule", "ScheduleAnyway"]]
    labelSelector: NotRequired[ReadOnly[LabelSelectorDict]]


class PodMetadataDict(TypedDict):
    """A stored PodMetadata."""

    labels: NotRequired[ReadOnly[dict[str, str]]]
    annotations: NotRequired[ReadOnly[dict[str, str]]]


class CaBundleDict(TypedDict):
    """A stored CaBundle."""

    name: ReadOnly[str]
    key: NotRequired[ReadOnly[str]]


class KeyToFileDict(TypedDict):
    """A stored KeyToFile."""

    key: ReadOnly[str]
    path: ReadOnly[str]


class ConfigMapVolumeDict(TypedDict):
    """A stored ConfigMapVolume."""

    name: ReadOnly[str]
    items: NotRequired[ReadOnly[list[KeyToFileDict]]]
    optional: NotRequired[ReadOnly[bool]]


class SecretVolumeDict(TypedDict):
    """A stored SecretVolume."""

    secretName: ReadOnly[str]
    items: NotRequired[ReadOnly[list[KeyToFileDict]]]


class EmptyDirVolumeDict(TypedDict):
    """A stored EmptyDirVolume."""

    sizeLimit: ReadOnly[int | str]
    medium: NotRequired[ReadOnly[Literal["", "Memory"]]]


class SecretProjectionDict(TypedDict):
    """A stored SecretProjection."""

    name: ReadOnly[str]
    items: NotRequired[ReadOnly[list[KeyToFileDict]]]


class VolumeProjectionDict(TypedDict):
    """A stored VolumeProjection."""

    configMap: NotRequired[ReadOnly[ConfigMapVolumeDict]]
    secret: NotRequired[ReadOnly[SecretProjectionDict]]


class ProjectedVolumeDict(TypedDict):
    """A stored ProjectedVolume."""

    sources: ReadOnly[list[VolumeProjectionDict]]


class ClaimVolumeDict(TypedDict):
    """A stored ClaimVolume."""

    claimName: ReadOnly[str]
    readOnly: NotRequired[ReadOnly[bool]]


class VolumeDict(TypedDict):
    """A stored Volume."""

    name: ReadOnly[str]
    configMap: NotRequired[ReadOnly[ConfigMapVolumeDict]]
    secret: NotRequired[ReadOnly[SecretVolumeDict]]
    emptyDir: NotRequired[ReadOnly[EmptyDirVolumeDict]]
    projected: NotRequired[ReadOnly[ProjectedVolumeDict]]
    persistentVolumeClaim: NotRequired[ReadOnly[ClaimVolumeDict]]


class VolumeMountDict(TypedDict):
    """A stored VolumeMount."""

    name: ReadOnly[str]
    mountPath: ReadOnly[str]
    subPath: NotRequired[ReadOnly[str]]
    readOnly: NotRequired[ReadOnly[bool]]


class ScalingDict(TypedDict):
    """A stored Scaling."""

    min: NotRequired[ReadOnly[int]]
    idleAfter: NotRequired[ReadOnly[str]]


class ResourceAmountsDict(TypedDict):
    """A stored ResourceAmounts."""

    cpu: NotRequired[ReadOnly[int | str]]
    memory: NotRequired[ReadOnly[int | str]]


class RuntimeResourcesDict(TypedDict):
    """A stored RuntimeResources."""

    requests: NotRequired[ReadOnly[ResourceAmountsDict]]
    limits: NotRequired[ReadOnly[ResourceAmountsDict]]


class ImagePullSecretDict(TypedDict):
    """A stored ImagePullSecret."""

    name: ReadOnly[str]


class SecretKeyDict(TypedDict):
    """A stored SecretKey."""

    name: ReadOnly[str]
    key: ReadOnly[str]


class EnvVarSourceDict(TypedDict):
    """A stored EnvVarSource."""

    secretKeyRef: ReadOnly[SecretKeyDict]


class EnvVarDict(TypedDict):
    """A stored EnvVar."""

    name: ReadOnly[str]
    value: NotRequired[ReadOnly[str]]
    valueFrom: NotRequired[ReadOnly[EnvVarSourceDict]]


class RuntimeDict(TypedDict):
    """A stored Runtime."""

    nodeSelector: NotRequired[ReadOnly[dict[str, str]]]
    tolerations: NotRequired[ReadOnly[list[TolerationDict]]]
    affinity: NotRequired[ReadOnly[AffinityDict]]
    topologySpreadConstraints: NotRequired[ReadOnly[list[TopologySpreadConstraintDict]]]
    priorityClassName: NotRequired[ReadOnly[str]]
    runtimeClassName: NotRequired[ReadOnly[str]]
    podMetadata: NotRequired[ReadOnly[PodMetadataDict]]
    caBundle: NotRequired[ReadOnly[CaBundleDict]]
    volumes: NotRequired[ReadOnly[list[VolumeDict]]]
    volumeMounts: NotRequired[ReadOnly[list[VolumeMountDict]]]
    replicas: NotRequired[ReadOnly[int]]
    scaling: NotRequired[ReadOnly[ScalingDict]]
    resources: NotRequired[ReadOnly[RuntimeResourcesDict]]
    image: NotRequired[ReadOnly[str]]
    imagePullSecrets: NotRequired[ReadOnly[list[ImagePullSecretDict]]]
    env: NotRequired[ReadOnly[list[EnvVarDict]]]


class DeployNoteDict(TypedDict):
    """A stored DeployNote."""

    id: ReadOnly[str]
    version: ReadOnly[str]
    by: NotRequired[ReadOnly[str]]
    message: NotRequired[ReadOnly[str]]
    revision: NotRequired[ReadOnly[str]]


class EnvironmentSpecDict(TypedDict):
    """A stored EnvironmentSpec."""

    name: ReadOnly[str]
    version: NotRequired[ReadOnly[str]]
    suspended: NotRequired[ReadOnly[bool]]
    runtime: NotRequired[ReadOnly[RuntimeDict]]
    pausedSchedules: NotRequired[ReadOnly[list[str]]]
    deployNote: NotRequired[ReadOnly[DeployNoteDict]]


class ProjectSpecDict(TypedDict):
    """A stored ProjectSpec."""

    name: ReadOnly[str]
    source: NotRequired[ReadOnly[ProjectSourceDict]]
    labels: NotRequired[ReadOnly[dict[str, str]]]
    settings: NotRequired[ReadOnly[ProjectSettingsDict]]
    dynamicVariablesSchema: NotRequired[ReadOnly[dict[str, Any]]]
    runtime: NotRequired[ReadOnly[RuntimeDict]]
    environments: NotRequired[ReadOnly[list[EnvironmentSpecDict]]]


class SourceStatusDict(TypedDict):
    """A stored SourceStatus."""

    revision: ReadOnly[str]
    artifact: ReadOnly[str]
    path: NotRequired[ReadOnly[str]]
    digest: ReadOnly[str]
    repository: NotRequired[ReadOnly[str]]


class HealthyVersionDict(TypedDict):
    """A stored HealthyVersion."""

    name: ReadOnly[str]
    digest: ReadOnly[str]


class ReleaseDict(TypedDict):
    """A stored Release."""

    number: ReadOnly[int]
    version: ReadOnly[str]
    digest: NotRequired[ReadOnly[str]]
    deployedAt: ReadOnly[str]
    note: NotRequired[ReadOnly[str]]
    by: NotRequired[ReadOnly[str]]
    via: NotRequired[ReadOnly[str]]
    message: NotRequired[ReadOnly[str]]
    revision: NotRequired[ReadOnly[str]]
    rollout: ReadOnly[Literal["progressing", "complete", "failed"]]
    healthy: NotRequired[ReadOnly[bool]]
    reason: NotRequired[ReadOnly[str]]
    failure: NotRequired[ReadOnly[str]]
    servedFrom: NotRequired[ReadOnly[str]]
    servedUntil: NotRequired[ReadOnly[str]]


class EnvironmentStatusDict(TypedDict):
    """A stored EnvironmentStatus."""

    name: ReadOnly[str]
    id: ReadOnly[str]
    workload: NotRequired[ReadOnly[str]]
    status: ReadOnly[Literal["draft", "running", "suspended", "error"]]
    message: NotRequired[ReadOnly[str]]
    version: NotRequired[ReadOnly[str]]
    desiredVersion: NotRequired[ReadOnly[str]]
    pinnedVersion: NotRequired[ReadOnly[str]]
    pinnedDigest: NotRequired[ReadOnly[str]]
    readyReplicas: NotRequired[ReadOnly[int]]
    sleeping: NotRequired[ReadOnly[bool]]
    queued: NotRequired[ReadOnly[int]]
    oldestQueuedMinutes: NotRequired[ReadOnly[int]]
    deadLetters: NotRequired[ReadOnly[int]]
    engineBytes: NotRequired[ReadOnly[int]]
    publicUrl: NotRequired[ReadOnly[str]]
    createdAt: ReadOnly[str]
    updatedAt: ReadOnly[str]
    deployedAt: NotRequired[ReadOnly[str]]
    rollout: NotRequired[ReadOnly[Literal["progressing", "complete", "failed"]]]
    deployFailure: NotRequired[ReadOnly[str]]
    servingSince: NotRequired[ReadOnly[str]]
    healthyVersions: NotRequired[ReadOnly[list[HealthyVersionDict]]]
    releases: NotRequired[ReadOnly[list[ReleaseDict]]]


class ProjectStatusDict(TypedDict):
    """A stored ProjectStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    latestVersion: NotRequired[ReadOnly[str]]
    source: NotRequired[ReadOnly[SourceStatusDict]]
    environments: NotRequired[ReadOnly[list[EnvironmentStatusDict]]]
    summary: NotRequired[ReadOnly[str]]


class ProjectVersionSpecDict(TypedDict):
    """A stored ProjectVersionSpec."""

    projectRef: ReadOnly[ReferenceDict]
    versionName: NotRequired[ReadOnly[str]]
    versionDescription: NotRequired[ReadOnly[str]]
    labels: NotRequired[ReadOnly[dict[str, str]]]
    createdBy: NotRequired[ReadOnly[str]]
    digest: ReadOnly[str]
    configMaps: ReadOnly[list[FilesConfigMapDict]]


class FileFindingDict(TypedDict):
    """A stored FileFinding."""

    filename: NotRequired[ReadOnly[str]]
    line: NotRequired[ReadOnly[int]]
    severity: ReadOnly[Literal["info", "warning", "error"]]
    message: ReadOnly[str]


class WebhookToolDict(TypedDict):
    """A stored WebhookTool."""

    webhook: ReadOnly[str]
    method: ReadOnly[str]
    description: ReadOnly[str]
    inputSchema: NotRequired[ReadOnly[dict[str, Any]]]


class VersionInterfaceDict(TypedDict):
    """A stored VersionInterface."""

    digest: ReadOnly[str]
    webhooks: NotRequired[ReadOnly[list[str]]]
    tools: NotRequired[ReadOnly[list[WebhookToolDict]]]
    descriptionFile: NotRequired[ReadOnly[str]]
    events: NotRequired[ReadOnly[list[str]]]


class ProjectVersionStatusDict(TypedDict):
    """A stored ProjectVersionStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    state: NotRequired[ReadOnly[Literal["draft", "ready", "failed", "superseded"]]]
    findings: NotRequired[ReadOnly[list[FileFindingDict]]]
    interface: NotRequired[ReadOnly[VersionInterfaceDict]]
    packageLock: NotRequired[ReadOnly[str]]


class ActivationConnectionDict(TypedDict):
    """A stored ActivationConnection."""

    connectionTemplate: ReadOnly[str]
    connectionRef: ReadOnly[ReferenceDict]


class ActivationSpecDict(TypedDict):
    """A stored ActivationSpec."""

    projectRef: ReadOnly[ReferenceDict]
    environment: ReadOnly[str]
    endUserRef: NotRequired[ReadOnly[ReferenceDict]]
    variables: NotRequired[ReadOnly[dict[str, Any]]]
    connections: NotRequired[ReadOnly[list[ActivationConnectionDict]]]


class ActivationStatusDict(TypedDict):
    """A stored ActivationStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    environmentId: NotRequired[ReadOnly[str]]
    variableErrors: NotRequired[ReadOnly[list[str]]]
    lastValidVariables: NotRequired[ReadOnly[dict[str, Any]]]


class EndUserSpecDict(TypedDict):
    """A stored EndUserSpec."""

    externalId: ReadOnly[str]
    displayName: NotRequired[ReadOnly[str]]


class StatusDict(TypedDict):
    """A stored Status."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]


class DescriptionPartDict(TypedDict):
    """A stored DescriptionPart."""

    name: ReadOnly[str]
    key: ReadOnly[str]


class ConnectorDescriptionDict(TypedDict):
    """A stored ConnectorDescription."""

    format: NotRequired[ReadOnly[str]]
    version: ReadOnly[str]
    configMaps: ReadOnly[list[DescriptionPartDict]]


class ConnectorSpecDict(TypedDict):
    """A stored ConnectorSpec."""

    name: ReadOnly[str]
    public: NotRequired[ReadOnly[bool]]
    documentationUrl: NotRequired[ReadOnly[str]]
    imageUrl: NotRequired[ReadOnly[str]]
    baseUrl: NotRequired[ReadOnly[str]]
    tags: NotRequired[ReadOnly[dict[str, str]]]
    defaultVersion: NotRequired[ReadOnly[str]]
    description: NotRequired[ReadOnly[ConnectorDescriptionDict]]
    projectRef: NotRequired[ReadOnly[ReferenceDict]]


class ConnectorStatusDict(TypedDict):
    """A stored ConnectorStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    latestVersion: NotRequired[ReadOnly[str]]
    defaultVersion: NotRequired[ReadOnly[str]]
    messages: NotRequired[ReadOnly[list[ValidationMessageDict]]]


class ConnectorVersionSpecDict(TypedDict):
    """A stored ConnectorVersionSpec."""

    connectorRef: ReadOnly[ReferenceDict]
    name: ReadOnly[str]
    description: NotRequired[ReadOnly[str]]
    format: ReadOnly[str]
    digest: ReadOnly[str]
    publishedAt: NotRequired[ReadOnly[str]]
    configMaps: ReadOnly[list[str]]


class ConnectorVersionStatusDict(TypedDict):
    """A stored ConnectorVersionStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    definitions: NotRequired[ReadOnly[int]]
    actions: NotRequired[ReadOnly[int]]
    triggers: NotRequired[ReadOnly[int]]
    messages: NotRequired[ReadOnly[list[ValidationMessageDict]]]


class GrantedToDict(TypedDict):
    """A stored GrantedTo."""

    organisationId: ReadOnly[str]


class GrantedCredentialDict(TypedDict):
    """A stored GrantedCredential."""

    connection: ReadOnly[str]
    credentialId: ReadOnly[str]
    tokenUrls: NotRequired[ReadOnly[list[str]]]


CredentialGrantSpecDict = TypedDict(
    "CredentialGrantSpecDict",
    {
        "from": ReadOnly[list[GrantedToDict]],
        "to": ReadOnly[list[GrantedCredentialDict]],
    },
)


class GrantedStatusDict(TypedDict):
    """A stored GrantedStatus."""

    connection: ReadOnly[str]
    credentialId: ReadOnly[str]
    id: NotRequired[ReadOnly[str]]
    tokenUrls: NotRequired[ReadOnly[list[str]]]
    errors: NotRequired[ReadOnly[list[str]]]


class CredentialGrantStatusDict(TypedDict):
    """A stored CredentialGrantStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    credentials: NotRequired[ReadOnly[list[GrantedStatusDict]]]


EmailChannelDict = TypedDict(
    "EmailChannelDict",
    {
        "host": ReadOnly[str],
        "port": NotRequired[ReadOnly[int]],
        "security": NotRequired[ReadOnly[Literal["starttls", "tls", "none"]]],
        "from": ReadOnly[str],
        "to": ReadOnly[list[str]],
        "username": NotRequired[ReadOnly[str]],
        "secretRef": NotRequired[ReadOnly[ReferenceDict]],
    },
)


class WebhookChannelDict(TypedDict):
    """A stored WebhookChannel."""

    url: ReadOnly[str]
    secretRef: ReadOnly[ReferenceDict]


class SlackChannelDict(TypedDict):
    """A stored SlackChannel."""

    secretRef: ReadOnly[ReferenceDict]


class NotificationChannelSpecDict(TypedDict):
    """A stored NotificationChannelSpec."""

    name: ReadOnly[str]
    type: ReadOnly[Literal["email", "webhook", "slack"]]
    email: NotRequired[ReadOnly[EmailChannelDict]]
    webhook: NotRequired[ReadOnly[WebhookChannelDict]]
    slack: NotRequired[ReadOnly[SlackChannelDict]]


class DeliveryFailureDict(TypedDict):
    """A stored DeliveryFailure."""

    reason: ReadOnly[str]
    message: ReadOnly[str]
    since: ReadOnly[str]


class NotificationChannelStatusDict(TypedDict):
    """A stored NotificationChannelStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    lastDeliveredAt: NotRequired[ReadOnly[str]]
    deliveryFailure: NotRequired[ReadOnly[DeliveryFailureDict]]


class FailureRateDict(TypedDict):
    """A stored FailureRate."""

    percent: NotRequired[ReadOnly[int]]
    minimumRuns: NotRequired[ReadOnly[int]]


class NotificationSpecDict(TypedDict):
    """A stored NotificationSpec."""

    name: ReadOnly[str]
    projectRef: ReadOnly[ReferenceDict]
    environment: ReadOnly[str]
    channelRef: ReadOnly[ReferenceDict]
    events: NotRequired[
        ReadOnly[
            list[
                Literal[
                    "run_dead",
                    "failure_rate",
                    "authorisation_needed",
                    "deploy_failed",
                    "environment_error",
                    "schedule_missed",
                    "issue_opened",
                    "issue_regressed",
                    "approval_requested",
                    "connection.created",
                    "connection.failed",
                    "connection.needs_authorisation",
                    "connection.deleted",
                    "activation.created",
                    "activation.deleted",
                ]
            ]
        ]
    ]
    failureRate: NotRequired[ReadOnly[FailureRateDict]]


class IncidentDict(TypedDict):
    """A stored Incident."""

    key: ReadOnly[str]
    event: ReadOnly[
        Literal[
            "run_dead",
            "failure_rate",
            "authorisation_needed",
            "deploy_failed",
            "environment_error",
            "schedule_missed",
            "issue_opened",
            "issue_regressed",
            "approval_requested",
            "connection.created",
            "connection.failed",
            "connection.needs_authorisation",
            "connection.deleted",
            "activation.created",
            "activation.deleted",
        ]
    ]
    subject: NotRequired[ReadOnly[str]]
    message: ReadOnly[str]
    since: ReadOnly[str]
    notifiedAt: NotRequired[ReadOnly[str]]
    endedAt: NotRequired[ReadOnly[str]]


class NotificationStatusDict(TypedDict):
    """A stored NotificationStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    incidents: NotRequired[ReadOnly[list[IncidentDict]]]
    lifecycleSince: NotRequired[ReadOnly[str]]
    issuesUntil: NotRequired[ReadOnly[str]]
    approvalsUntil: NotRequired[ReadOnly[str]]


class EnvironmentObjectSpecDict(TypedDict):
    """A stored EnvironmentObjectSpec."""

    projectRef: ReadOnly[ReferenceDict]
    environment: ReadOnly[str]
    replicas: ReadOnly[int]


class EnvironmentObjectStatusDict(TypedDict):
    """A stored EnvironmentObjectStatus."""

    id: NotRequired[ReadOnly[str]]
    observedGeneration: NotRequired[ReadOnly[int]]
    conditions: NotRequired[ReadOnly[list[ConditionDict]]]
    state: NotRequired[ReadOnly[Literal["draft", "running", "suspended", "error"]]]
    version: NotRequired[ReadOnly[str]]
    desiredVersion: NotRequired[ReadOnly[str]]
    rollout: NotRequired[ReadOnly[Literal["progressing", "complete", "failed"]]]
    replicas: NotRequired[ReadOnly[int]]
    readyReplicas: NotRequired[ReadOnly[int]]
    selector: NotRequired[ReadOnly[str]]
    publicUrl: NotRequired[ReadOnly[str]]
    queued: NotRequired[ReadOnly[int]]
    deadLetters: NotRequired[ReadOnly[int]]


class PartialCredentialStatusDict(TypedDict):
    """Nothing, or a stored CredentialStatus."""

    id: NotRequired[ReadOnly[str]]
    errors: NotRequired[ReadOnly[list[str]]]
    warnings: NotRequired[ReadOnly[list[str]]]
    validationMessages: NotRequired[ReadOnly[list[ValidationMessageDict]]]
    expired: NotRequired[ReadOnly[bool]]
    mtlsCredentialId: NotRequired[ReadOnly[str]]


class PartialEnvironmentSpecDict(TypedDict):
    """Nothing, or a stored EnvironmentSpec."""

    name: NotRequired[ReadOnly[str]]
    version: NotRequired[ReadOnly[str]]
    suspended: NotRequired[ReadOnly[bool]]
    runtime: NotRequired[ReadOnly[RuntimeDict]]
    pausedSchedules: NotRequired[ReadOnly[list[str]]]
    deployNote: NotRequired[ReadOnly[DeployNoteDict]]


class PartialEnvironmentStatusDict(TypedDict):
    """Nothing, or a stored EnvironmentStatus."""

    name: NotRequired[ReadOnly[str]]
    id: NotRequired[ReadOnly[str]]
    workload: NotRequired[ReadOnly[str]]
    status: NotRequired[ReadOnly[Literal["draft", "running", "suspended", "error"]]]
    message: NotRequired[ReadOnly[str]]
    version: NotRequired[ReadOnly[str]]
    desiredVersion: NotRequired[ReadOnly[str]]
    pinnedVersion: NotRequired[ReadOnly[str]]
    pinnedDigest: NotRequired[ReadOnly[str]]
    readyReplicas: NotRequired[ReadOnly[int]]
    sleeping: NotRequired[ReadOnly[bool]]
    queued: NotRequired[ReadOnly[int]]
    oldestQueuedMinutes: NotRequired[ReadOnly[int]]
    deadLetters: NotRequired[ReadOnly[int]]
    engineBytes: NotRequired[ReadOnly[int]]
    publicUrl: NotRequired[ReadOnly[str]]
    createdAt: NotRequired[ReadOnly[str]]
    updatedAt: NotRequired[ReadOnly[str]]
    deployedAt: NotRequired[ReadOnly[str]]
    rollout: NotRequired[ReadOnly[Literal["progressing", "complete", "failed"]]]
    deployFailure: NotRequired[ReadOnly[str]]
    servingSince: NotRequired[ReadOnly[str]]
    healthyVersions: NotRequired[ReadOnly[list[HealthyVersionDict]]]
    releases: NotRequired[ReadOnly[list[ReleaseDict]]]


class SystemObject(TypedDict):
    """A stored System."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["System"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[SystemSpecDict]
    status: NotRequired[ReadOnly[SystemStatusDict]]


class ConnectionTemplateObject(TypedDict):
    """A stored ConnectionTemplate."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["ConnectionTemplate"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ConnectionTemplateSpecDict]
    status: NotRequired[ReadOnly[ConnectionTemplateStatusDict]]


class ConnectionObject(TypedDict):
    """A stored Connection."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["Connection"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ConnectionSpecDict]
    status: NotRequired[ReadOnly[ConnectionStatusDict]]


class ProjectObject(TypedDict):
    """A stored Project."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["Project"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ProjectSpecDict]
    status: NotRequired[ReadOnly[ProjectStatusDict]]


class ProjectVersionObject(TypedDict):
    """A stored ProjectVersion."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["ProjectVersion"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ProjectVersionSpecDict]
    status: NotRequired[ReadOnly[ProjectVersionStatusDict]]


class ActivationObject(TypedDict):
    """A stored Activation."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["Activation"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ActivationSpecDict]
    status: NotRequired[ReadOnly[ActivationStatusDict]]


class EndUserObject(TypedDict):
    """A stored EndUser."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["EndUser"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[EndUserSpecDict]
    status: NotRequired[ReadOnly[StatusDict]]


class ConnectorObject(TypedDict):
    """A stored Connector."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["Connector"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ConnectorSpecDict]
    status: NotRequired[ReadOnly[ConnectorStatusDict]]


class ConnectorVersionObject(TypedDict):
    """A stored ConnectorVersion."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["ConnectorVersion"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[ConnectorVersionSpecDict]
    status: NotRequired[ReadOnly[ConnectorVersionStatusDict]]


class CredentialGrantObject(TypedDict):
    """A stored CredentialGrant."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["CredentialGrant"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[CredentialGrantSpecDict]
    status: NotRequired[ReadOnly[CredentialGrantStatusDict]]


class NotificationChannelObject(TypedDict):
    """A stored NotificationChannel."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["NotificationChannel"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[NotificationChannelSpecDict]
    status: NotRequired[ReadOnly[NotificationChannelStatusDict]]


class NotificationObject(TypedDict):
    """A stored Notification."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["Notification"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[NotificationSpecDict]
    status: NotRequired[ReadOnly[NotificationStatusDict]]


class EnvironmentObject(TypedDict):
    """A stored Environment."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["Environment"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[EnvironmentObjectSpecDict]
    status: NotRequired[ReadOnly[EnvironmentObjectStatusDict]]
