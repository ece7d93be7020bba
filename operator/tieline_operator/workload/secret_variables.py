"""Environment variables whose values are in Secrets: which of them pods get. Pure; no value is read here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.credentials.validation.variable_findings import is_opened, variable_problem
from tieline_core.resources.projects import Runtime, SecretKey
from tieline_protocol.secret_fields import is_secret

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class SecretVariable:
    """An environment variable and the key of the Secret that kubelet takes its value from."""

    name: str
    secret: str
    key: str
    version: str
    """Another one with each write of the Secret."""
    masked: bool = True
    """Whether its value is a secret."""


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
        if problem := variable_problem(facts, reference.key, project, environment):
            problems.append(f"the environment variable {name}: {problem}")
            if facts.exists and not is_opened(facts, project, environment):
                refused.add((reference.name, reference.key))
        else:
            not_secret = facts.exposure.not_secret if facts.exposure else ()
            variable = SecretVariable(
                name=name,
                secret=reference.name,
                key=reference.key,
                version=facts.version,
                masked=is_secret(reference.key, not_secret),
            )
            given.append(variable)
    wanted = {(reference.name, reference.key) for _, reference in _references(runtime)}
    return SecretVariables(
        given=tuple(given),
        problems=tuple(problems),
        withdrawn=any(one not in wanted or one in refused for one in _given(deployment)),
    )


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
