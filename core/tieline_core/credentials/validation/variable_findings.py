"""Why code cannot have a Secret, or a key of it as an environment variable. Pure; no value is read here."""

from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.identity.names import CREDENTIAL_TYPE, EXPOSE_LABEL, EXPOSED_TO_ANNOTATION


def is_opened(facts: SecretFacts, project: str, environment: str) -> bool:
    """Whether the Secret is opened to code of an environment."""
    return facts.right_type and facts.exposure is not None and facts.exposure.includes(project, environment)


def secret_problem(facts: SecretFacts, project: str, environment: str) -> str:
    """Why code of an environment cannot have a Secret; empty where it can."""
    name = facts.name
    if not facts.exists:
        return f'there is no Secret "{name}" of type {CREDENTIAL_TYPE}; create it'
    if not facts.right_type:
        return f'the Secret "{name}" is not of type {CREDENTIAL_TYPE}; create it with that type'
    if facts.exposure is None:
        return f'the Secret "{name}" is not opened to code; its owner must set the label {EXPOSE_LABEL} to "true"'
    if not facts.exposure.includes(project, environment):
        return (
            f'the Secret "{name}" is opened to other projects; its owner must add {project}/{environment} to its '
            f"annotation {EXPOSED_TO_ANNOTATION}"
        )
    return ""


def key_problem(facts: SecretFacts, key: str, project: str, environment: str) -> str:
    """Why code cannot have a key of a Secret. Messages never reveal the keys of Secrets of another type or owner."""
    if problem := secret_problem(facts, project, environment):
        return problem
    if key not in facts.values.keys:
        return f'the Secret "{facts.name}" has no value for the key "{key}"'
    return ""


def variable_problem(facts: SecretFacts, key: str, project: str, environment: str) -> str:
    """Why an environment variable cannot have the value of a key."""
    name = facts.name
    if problem := key_problem(facts, key, project, environment):
        return problem
    if key in facts.values.no_text:
        return f'the key "{key}" of the Secret "{name}" is no text (UTF-8)'
    if key in facts.values.no_variable:
        return (
            f'no environment variable can hold the key "{key}" of the Secret "{name}": it has more than 128 KiB, or a '
            "NUL; give it to code by a connection (ctx.credentials)"
        )
    return ""
