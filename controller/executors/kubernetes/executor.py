"""The executor for clusters whose nodes run pods instead of agents.

It proves the seam: nothing above it knows of pods. Not done yet: a watch (every look is a list), logs, progress and
checkpoints of pods, and leases of their nodes, without which a lost node's worker stays as it was until Kubernetes
removes its pod. The file behind the barrier is renewed by the kubelet's sync, which may take up to a minute.
Pods of an attempt that is no longer mentioned go when the job's next attempt is.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self

import structlog

from controller.executors.base import Intent, Observation
from controller.executors.kubernetes.decide import Steps, observations, steps
from controller.executors.kubernetes.pod import ATTEMPT, GO, Pod, Site, manifest, read_pod
from controller.records import WorkerRecord
from muster.clock import Clock, SystemClock
from muster.states import WORKER_TERMINAL

log = structlog.get_logger("muster.kubernetes")

REQUEST_SECONDS: Final = 10.0


class KubernetesExecutor:
    """`api` is a kubernetes.client.CoreV1Api. Not safe to share between threads."""

    name = "kubernetes"

    def __init__(self, api: Any, site: Site, clock: Clock) -> None:
        self._api, self._site, self._clock = api, site, clock
        self._intents: dict[str, Intent] = {}
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        self._refused, self._failures = ApiException, (ApiException, HTTPError)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """MUSTER_KUBERNETES_IMAGE (needed), MUSTER_KUBERNETES_NAMESPACE, MUSTER_KUBERNETES_INTERFACE, and
        MUSTER_KUBERNETES_SERVER (URL without credentials, as of `kubectl proxy`; else the pod's own service account).
        Raises ValueError naming what is missing."""
        env = os.environ if environ is None else environ
        if not env.get("MUSTER_KUBERNETES_IMAGE"):
            raise ValueError("MUSTER_KUBERNETES_IMAGE is not set: the image that all workers run in")
        site = Site(
            image=env["MUSTER_KUBERNETES_IMAGE"],
            namespace=env.get("MUSTER_KUBERNETES_NAMESPACE") or "default",
            interface=env.get("MUSTER_KUBERNETES_INTERFACE") or "eth0",
        )
        return cls(_connect(env.get("MUSTER_KUBERNETES_SERVER")), site, SystemClock())

    def reconcile(self, intents: Iterable[Intent]) -> None:
        """One list of the pods, then the steps of each attempt. An attempt whose steps fail is tried again at the
        next call."""
        given = list(intents)
        self._remember(given)
        try:
            pods = self._pods()
        except self._failures as error:
            log.warning("the Kubernetes API does not answer", error=_why(error))
            return
        for intent in given:
            try:
                self._take(intent, steps(intent, pods), pods)
            except self._failures as error:
                log.warning("not done, tried again later", attempt=intent.attempt.uid, error=_why(error))

    def observe(self) -> list[Observation]:
        """News of the attempts that were mentioned; nothing while the API does not answer."""
        if not self._intents:
            return []
        try:
            pods = self._pods()
        except self._failures as error:
            log.warning("the Kubernetes API does not answer", error=_why(error))
            return []
        now = self._clock.now()
        return [seen for intent in self._intents.values() for seen in observations(intent, pods, now)]

    def _remember(self, given: Iterable[Intent]) -> None:
        """An attempt is mentioned until all of its workers are terminal."""
        for intent in given:
            if all(worker.phase in WORKER_TERMINAL for worker in intent.workers):
                self._intents.pop(intent.attempt.uid, None)
            else:
                self._intents[intent.attempt.uid] = intent

    def _take(self, intent: Intent, todo: Steps, pods: list[Pod]) -> None:
        for pod in todo.delete:
            self._delete(pod.name, pod.uid)
        try:
            for worker, pod_ in todo.launch:
                self._launch(intent, worker, pod_)
        except self._failures as error:
            log.warning("a gang is taken back", attempt=intent.attempt.uid, error=_why(error))
            self._take_back(intent)
        for pod in todo.go:
            self._call(
                self._api.patch_namespaced_pod, pod.name, {"metadata": {"annotations": {GO: "run"}, "uid": pod.uid}}
            )

    def _launch(self, intent: Intent, worker: WorkerRecord, pod: Pod | None) -> None:
        made = manifest(intent, worker, self._site)
        name = made["metadata"]["name"]
        if pod is None:
            self._call(self._api.create_namespaced_pod, made)
        target = {"apiVersion": "v1", "kind": "Node", "name": worker.node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self._call(self._api.create_namespaced_pod_binding, name, binding)

    def _take_back(self, intent: Intent) -> None:
        """All pods of the attempt, whatever became of the requests that made them."""
        for pod in self._pods(f"{ATTEMPT}={intent.attempt.uid}"):
            if not pod.deleting:
                self._delete(pod.name, pod.uid)

    def _delete(self, name: str, uid: str) -> None:
        """That very pod: one that took its name since stays."""
        try:
            self._call(self._api.delete_namespaced_pod, name, body={"preconditions": {"uid": uid}})
        except self._refused as error:
            if error.status not in (404, 409):  # gone, or another one by now
                raise

    def _pods(self, selector: str = ATTEMPT) -> list[Pod]:
        items = self._call(self._api.list_namespaced_pod, label_selector=selector)["items"]
        return [pod for item in items if (pod := read_pod(item)) is not None]

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The namespace comes after a name and before a body. The answer is read as plain JSON: the client's models
        refuse what a newer server may add."""
        names = [arg for arg in args if isinstance(arg, str)]
        bodies = [arg for arg in args if not isinstance(arg, str)]
        answer = method(
            *names, self._site.namespace, *bodies, **kwargs, _preload_content=False, _request_timeout=REQUEST_SECONDS
        )
        return json.loads(answer.data)


def _connect(server: str | None) -> Any:
    from kubernetes import client, config

    settings = client.Configuration()
    if server:
        settings.host = server
    else:
        try:
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise ValueError(f"MUSTER_KUBERNETES_SERVER is not set, and there is no service account: {error}") from None
    settings.retries = False  # the next reconcile is the retry
    return client.CoreV1Api(client.ApiClient(settings))


def _why(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
