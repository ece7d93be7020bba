"""A history: rounds of operations and faults, each of which ends in the same way or is reported."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.faults import audit_records, checks
from tests.faults.clients import KubectlClient, Rest
from tests.faults.event_traffic import EventWorker
from tests.faults.events.verdict import EventVerdict
from tests.faults.fault_injection import Episode, FaultInjector
from tests.faults.ha_platform import Stage, secret_manifest
from tests.faults.kubectl_worker import SYSTEM, KubectlWorker
from tests.faults.model import Model, Outcome
from tests.faults.observation import Observation, look, texts
from tests.faults.rest_worker import API_KEY, RestWorker, login_scheme
from tests.faults.worker import Log, Worker, code
from tests.harness.clients.secret_leaks import leaks
from tests.harness.cluster.deployed_platform import http
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_process import RunningProcess
from tests.integration.operator.running_operator import RunningOperator

BOUND = 240.0
"""Seconds after the last fault within which all has to be as it was written."""


class DivergedError(AssertionError):
    """The end was not what it must be."""


@dataclass
class History:
    """All that one seed brings about."""

    stage: Stage
    seed: int
    log: Log
    pause: float = 1.5
    model: Model = field(default_factory=Model)
    heard: list[str] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)
    """Namespaces that were deleted."""
    began: float = field(default_factory=time.time)
    workers: list[Worker] = field(default_factory=list)

    def begin(self) -> None:
        """The shop's System by both doors, and who works."""
        stage = self.stage
        self.troubles = FaultInjector(stage, self.log, random.Random(f"{self.seed} troubles"))
        self.troubles.extra.append(self._doomed_organisation)
        self.apply = KubectlClient(stage.kubectl, stage.organisation.namespace, self._hear)
        self.rests = [self._rest([url], "reading") for url in stage.api_urls]
        rest = self._rest(stage.api_urls, "rest")
        system = self._systems(rest)
        for name in ("ann", "ben"):
            rng = random.Random(f"{self.seed} {name}")
            own = self._rest(stage.api_urls, name)
            self.workers.append(
                RestWorker(name, self.model, stage.shop, self.log, rng, rest=own, system=system)
            )
        rng = random.Random(f"{self.seed} eve")
        own = self._rest(stage.api_urls, "eve")
        self.events = EventWorker("eve", self.model, stage.shop, self.log, rng, rest=own, system=system)
        self.workers.append(self.events)
        for name in ("cat", "dan"):
            rng = random.Random(f"{self.seed} {name}")
            own = self._rest(stage.api_urls, name)
            self.workers.append(
                KubectlWorker(name, self.model, stage.shop, self.log, rng, apply=self.apply, rest=own)
            )

    def round(self, number: int, seconds: float) -> None:
        """Operations and faults for a while, then peace, and the judgement."""
        self.log.note(f"Round {number}: operations and faults for {seconds:.0f} s", shown=True)
        stop = threading.Event()
        with ThreadPoolExecutor(len(self.workers) + 2) as pool:
            running = [pool.submit(worker.run, stop, self.pause) for worker in self.workers]
            running.append(pool.submit(self.troubles.run, stop, 4.0))
            running.append(pool.submit(self._supervise, stop))
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not any(one.done() for one in running):
                stop.wait(1)
            stop.set()
            for one in running:
                one.result()
        self.log.note(f"Round {number}: peace; {self._so_far()}", shown=True)
        self.peace()

    def peace(self, bound: float = BOUND) -> Observation:
        """Waits until everything is as it was written; raises DivergedError with what is not."""
        began = time.monotonic()
        self.stage.cluster.mend()
        ended = self._log_in_again()
        look, last = self.look(), ""
        while look[1].complaints and time.monotonic() - began < bound:
            self.stage.revive()
            time.sleep(2)
            ended |= self._log_in_again()
            look = self.look()
            told = checks.told(look[1].complaints)
            if time.monotonic() - began > 30 and told != last:
                last = told
                self.log.note(f"  not yet: {told}", shown=True)
        seen, judged = look
        problems = [*judged.complaints, *self.written_down()]
        if not judged.complaints:
            problems += self.told(seen)
        if problems:
            raise DivergedError(self._report(problems))
        checks.settle(self.model, judged.facts)
        self.log.note(
            f"  all as it was written after {time.monotonic() - began:.0f} s: {len(seen.projects())} projects, "
            f"{sum(isinstance(one, dict) for one in seen.served.values())} answer as deployed, "
            f"{len(judged.facts)} facts, {len(self.stage.shop.journal)} token requests"
            + (f", {len(ended)} log-ins lost with their process" if ended else ""),
            shown=True,
        )
        counts = self.judged_events().counts
        self.log.note(f"  events: {', '.join(f'{n:,} {what}' for what, n in counts.items())}", shown=True)
        return seen

    def written_down(self) -> list[str]:
        """What the provider and the API server complain of."""
        reused, _ = audit_records.reused(self.stage.shop.journal, self.troubles.episodes)
        writes = audit_records.audited(self.stage.cluster.audit_logs, since=self.began)
        wall = time.time() - time.monotonic()
        held_up = [(one.target, one.ended + wall) for one in self.troubles.episodes]
        return reused + audit_records.stale(writes, held_up)

    def told(self, seen: Observation, more: Mapping[str, str] | None = None) -> list[str]:
        """Every place in which a secret stands, and could be read by those who may not have it."""
        stage = self.stage
        places = texts(stage.kubectl, stage.organisation.namespace, seen, self.rests[0])
        for name, replica in stage.replicas.items():
            places[f"log of {name}"] = replica.process.log.read_text(errors="replace")
            places[f"metrics of {name}"] = _metrics(replica.process)
        places["answers"] = "\n".join(self.heard)
        self.heard.clear()
        found = leaks({"a secret": stage.mark}, {**places, **(more or {})})
        return [f"A secret stands in {one.place} {one.form}, after {one.around[-60:]!r}" for one in found]

    # --- how it goes ------------------------------------------------------------------------------------

    def look(self) -> tuple[Observation, checks.Verdict]:
        seen = look(self.stage.kubectl, self.stage.organisation.namespace, self.rests)
        judged = checks.judge(self.model, seen, datetime.now(UTC))
        events = self.judged_events().complaints if not judged.complaints else []
        there = self.stage.kubectl("get", "namespaces", "-o", "name", check=False).stdout.split()
        left = [f"{name} is still there" for name in there if name.removeprefix("namespace/") in self.doomed]
        return seen, checks.Verdict(judged.facts, [*judged.complaints, *left, *events])

    def judged_events(self) -> EventVerdict:
        """What is wrong with the events of the project that has some."""
        rest = self.rests[int(time.monotonic()) % len(self.rests)]
        engine = next(iter(self.stage.engines.values()))
        return self.events.judged(rest, engine, self.stage.shop.effects)

    def _supervise(self, stop: threading.Event) -> None:
        """As Kubernetes does it for pods: what has ended is started again."""
        while not stop.wait(1):
            for name in self.stage.revive():
                now = time.monotonic()
                self.troubles.episodes.append(Episode("exit", name, now - 1, now))
                self.log.note(f"   {name} had ended by itself and was started again", shown=True)

    def _log_in_again(self) -> set[int]:
        """What people do whose log-in was lost with the process that renewed it."""
        _, ended = audit_records.reused(self.stage.shop.journal, self.troubles.episodes)
        for worker in self.workers:
            for project in worker.projects():
                if project.family.value in ended:
                    worker.log_in(project)
        return ended

    def _systems(self, rest: Rest) -> str:
        shop = self.stage.shop
        login = login_scheme(shop)
        body = {
            "name": "Shop by REST",
            "domain": "shop.example",
            "templateBaseUrl": shop.url,
            "authSchemeConfigs": [API_KEY, login],
        }
        made = rest("POST", "/systems", body)
        assert made.outcome is Outcome.DONE, made.text
        secret = {**secret_manifest("shop-client", {"clientSecret": shop.client_secret})}
        grant = {
            "type": "authorizationCode",
            "authorizationCode": {"clientId": "tieline", "secretRef": {"name": "shop-client"}},
        }
        oauth2 = {key: value for key, value in login["oauth2"].items() if key not in ("id", "grant")}
        spec = {
            "name": "Shop by kubectl",
            "domain": "shop.example",
            "templateBaseUrl": shop.url,
            "authSchemeConfigs": [
                {"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}},
                {"id": "login", "type": "oauth2", "oauth2": {**oauth2, "grant": grant}},
            ],
        }
        for said in (self.apply.apply_object(secret), self.apply.apply("System", SYSTEM, spec)):
            assert said.outcome is Outcome.DONE, said.text
        return str(made.body["id"])

    def _rest(self, urls: list[str], who: str) -> Rest:
        stage = self.stage
        rng = random.Random(f"{self.seed} {who} replicas")
        return Rest(urls, stage.token, stage.organisation.id, rng, self._hear)

    def _hear(self, place: str, text: str) -> None:
        self.heard.append(f"{place}\n{text}")

    def _doomed_organisation(self, rng: random.Random, stop: threading.Event) -> None:
        """An organisation whose namespace is deleted while things run in it and are being made."""
        stage = self.stage
        began = time.monotonic()
        self.log.counts["fault: namespace deleted"] += 1
        self.log.note("** a namespace is deleted while things run in it", shown=True)
        try:
            doomed = stage.organise()
        except AssertionError as error:
            self.log.note(f"   it could not be made: {error}")
            return
        apply = KubectlClient(stage.kubectl, doomed.namespace, self._hear)
        for number in range(3):
            spec = {
                "name": f"Doomed {number}",
                "source": {"files": [{"filename": "main.py", "content": code("doomed")}]},
                "environments": [{"name": "production", "version": "latest"}],
            }
            apply.apply("Project", f"doomed-{number}", spec)
            if number == 1:
                stop.wait(rng.uniform(0, 6))
                apply("delete", "namespace", doomed.namespace, "--wait=false")
        apply("delete", "namespace", doomed.namespace, "--wait=false", "--ignore-not-found")
        self.doomed.append(doomed.namespace)
        self.troubles.episodes.append(Episode("namespace", doomed.namespace, began, time.monotonic()))

    def _so_far(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.log.counts.items()))

    def _report(self, problems: list[str]) -> str:
        tail = "\n".join(list(self.log.tail)[-120:])
        told = "\n".join(f"- {problem}" for problem in problems[:40])
        return (
            f"The history of seed {self.seed} did not end as it must. Its end:\n{tail}\n\n"
            f"What differs ({len(problems)}):\n{told}\n\n"
            f"Logs are in {self.stage.folder}. Again: make faults SEED={self.seed}"
        )


def _metrics(process: RunningProcess) -> str:
    if isinstance(process, RunningOperator):
        return process.metrics()
    assert isinstance(process, RunningApi)
    return http("GET", f"{process.metrics_url}/metrics").body.decode()
