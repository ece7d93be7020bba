"""Environment variables whose values are in Secrets: which of them pods get. Pure; no value is read here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.identity.names import CREDENTIAL_TYPE, EXPOSE_LABEL, EXPOSED_TO_ANNOTATION
from tieline_core.resources.projects import Runtime, SecretKey

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class SecretVariable:
    """An environment variable and the key of the Secret that kubelet takes its value from."""

    name: str
    secret: str
    key: str
    version: str
    """Another one with each write of the Secret."""


@dataclass(frozen=True, kw_only=True)
class SecretVariables:
    """Those of an environment that pods may have, and why they may not have the others."""

    given: tuple[SecretVariable, ...] = ()
    problems: tuple[str, ...] = ()
    withdrawn: bool = False
    """Whether the Deployment has one that pods must not get any more."""

    @property
    def problem(self) -> str:
        """The problems as one text; empty where there are none."""
        more = f"; and {len(self.problems) - _SHOWN} more" if len(self.problems) > _SHOWN else ""
        return "; ".join(self.problems[:_SHOWN]) + more


def referenced_secrets(runtime: Runtime) -> set[str]:
    """The names of the Secrets that the variables of a runtime come from."""
    return {reference.name for _, reference in _references(runtime)}


def secret_variables(
    runtime: Runtime,
    *,
    project: str,
    environment: str,
    secrets: Mapping[str, SecretFacts],
    deployment: Mapping[str, Any] | None,
) -> SecretVariables:
    """Which variables from Secrets the pods of an environment may have; ``deployment`` is the one that is there."""
    given: list[SecretVariable] = []
    problems: list[str] = []
    refused: set[tuple[str, str]] = set()
    for name, reference in _references(runtime):
        facts = secrets.get(reference.name) or SecretFacts(name=reference.name)
        if problem := _problem(facts, reference.key, project, environment):
            problems.append(f"the environment variable {name}: {problem}")
            if facts.exists and not _opened(facts, project, environment):
                refused.add((reference.name, reference.key))
        else:
            variable = SecretVariable(
                name=name, secret=reference.name, key=reference.key, version=facts.version
            )
            given.append(variable)
    wanted = {(reference.name, reference.key) for _, reference in _references(runtime)}
    return SecretVariables(
        given=tuple(given),
        problems=tuple(problems),
        withdrawn=any(one not in wanted or one in refused for one in _given(deployment)),
    )


def _opened(facts: SecretFacts, project: str, environment: str) -> bool:
    return facts.right_type and facts.exposure is not None and facts.exposure.includes(project, environment)


def _problem(facts: SecretFacts, key: str, project: str, environment: str) -> str:
    """Why a key cannot be used. That a Secret of another type or owner has a key is told to nobody."""
    name = facts.name
    if not facts.exists:
        return f'there is no Secret "{name}"; create it with the type {CREDENTIAL_TYPE}'
    if not facts.right_type:
        return f'the Secret "{name}" is not of type {CREDENTIAL_TYPE}; create it with that type'
    if facts.exposure is None:
        return f'the Secret "{name}" is not opened to code; whoever owns it sets its label {EXPOSE_LABEL} to "true"'
    if not facts.exposure.includes(project, environment):
        return (
            f'the Secret "{name}" is opened to other projects; whoever owns it adds {project}/{environment} to its '
            f"annotation {EXPOSED_TO_ANNOTATION}"
        )
    if key not in facts.values.keys:
        return f'the Secret "{name}" has no value for the key "{key}"'
    if key in facts.values.no_text:
        return f'the key "{key}" of the Secret "{name}" is no text (UTF-8)'
    if key in facts.values.no_variable:
        return (
            f'no environment variable can hold the key "{key}" of the Secret "{name}": it has more than 128 KiB, or a '
            "NUL; give it to code by a connection (ctx.credentials)"
        )
    return ""


def _references(runtime: Runtime) -> Iterator[tuple[str, SecretKey]]:
    for one in runtime.env or ():
        if one.value_from is not None:
            yield one.name, one.value_from.secret_key_ref


def _given(deployment: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Secret and key of each variable that the Deployment takes from a Secret."""
    pod = deployment["spec"]["template"].get("spec", {}) if deployment else {}
    containers: Sequence[Mapping[str, Any]] = pod.get("containers") or ()
    for container in containers:
        for item in container.get("env") or ():
            if reference := (item.get("valueFrom") or {}).get("secretKeyRef"):
                yield reference["name"], reference["key"]
