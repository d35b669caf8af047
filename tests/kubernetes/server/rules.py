"""What the server knows of single kinds: pods above all."""

import re
from typing import TYPE_CHECKING, Any

from tests.kubernetes.server.errors import Refusal, conflict, forbidden, invalid
from tests.kubernetes.server.kinds import Kind

if TYPE_CHECKING:
    from tests.kubernetes.server.cluster import Cluster

Object = dict[str, Any]
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
MUTABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


def check_names(kind: Kind, name: str, meta: Object) -> None:
    rule = SERVICE if kind.plural == "services" else LABEL if kind.plural == "namespaces" else SUBDOMAIN
    if not rule.fullmatch(name) or len(name) > 253:
        raise invalid(kind.kind, name, f'metadata.name: Invalid value: "{name}": must consist of lower case characters')
    for key, value in (meta.get("labels") or {}).items():
        if not KEY.fullmatch(key) or len(value) > 63 or not VALUE.fullmatch(value):
            raise invalid(kind.kind, name, f'metadata.labels: Invalid value: "{value}"')
    for key, value in (meta.get("annotations") or {}).items():
        if not KEY.fullmatch(key) or not isinstance(value, str):
            raise invalid(kind.kind, name, f'metadata.annotations: Invalid value: "{key}"')
    for owner in meta.get("ownerReferences") or ():
        if not all(owner.get(field) for field in ("apiVersion", "kind", "name", "uid")):
            raise invalid(kind.kind, name, "metadata.ownerReferences: Required value")
    for finalizer in meta.get("finalizers") or ():
        if not kind.group.endswith(".io") and "/" not in finalizer and kind.plural != "namespaces":
            raise invalid(kind.kind, name, f'metadata.finalizers[0]: Invalid value: "{finalizer}": must be qualified')


def on_create(cluster: "Cluster", kind: Kind, made: Object) -> None:
    if kind.plural != "pods":
        if kind.plural == "namespaces":
            made["status"] = {"phase": "Active"}
        return
    name, namespace, spec = made["metadata"]["name"], made["metadata"]["namespace"], made.get("spec") or {}
    _check_pod(name, spec)
    account = spec.setdefault("serviceAccountName", "default")
    if (namespace, account) not in cluster.core("serviceaccounts"):
        why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        raise forbidden("pods", name, why)
    _quota(cluster, namespace, name)
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    made["spec"], made["status"] = spec, {"phase": "Pending", "qosClass": "Burstable"}


def _check_pod(name: str, spec: Object) -> None:
    if not spec.get("containers"):
        raise invalid("Pod", name, "spec.containers: Required value")
    volumes = {one["name"] for one in spec.get("volumes") or ()}
    names = set[str]()
    for where in ("initContainers", "containers"):
        for at, one in enumerate(spec.get(where) or ()):
            path = f"spec.{where}[{at}]"
            if not LABEL.fullmatch(one.get("name", "")) or one["name"] in names:
                raise invalid("Pod", name, f"{path}.name: Invalid value: {one.get('name')!r}")
            names.add(one["name"])
            if not one.get("image"):
                raise invalid("Pod", name, f"{path}.image: Required value")
            for entry in one.get("env") or ():
                if not re.fullmatch(r"[^=\0]+", entry.get("name", "")) or not isinstance(entry.get("value", ""), str):
                    raise invalid("Pod", name, f"{path}.env: Invalid value: {entry}")
            for mount in one.get("volumeMounts") or ():
                if mount["name"] not in volumes:
                    raise invalid("Pod", name, f'{path}.volumeMounts: Not found: "{mount["name"]}"')
            _check_resources(name, path, one.get("resources") or {})
    for field in ("hostname", "subdomain"):
        if spec.get(field) and not LABEL.fullmatch(spec[field]):
            raise invalid("Pod", name, f'spec.{field}: Invalid value: "{spec[field]}"')
    if spec.get("hostNetwork") and spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        raise invalid("Pod", name, "spec.dnsConfig: Required value")
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        raise invalid("Pod", name, "spec.restartPolicy: Unsupported value")


def _check_resources(name: str, path: str, resources: Object) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, value in {**limits, **requests}.items():
        if not isinstance(value, str | int) or not re.fullmatch(r"\d+(\.\d+)?([numkMGTPE]i?|Ki)?", str(value)):
            raise Refusal(400, f"quantities must match the regular expression: {key}: {value!r}")
        if "/" in key and (not str(value).isdigit() or str(limits.get(key)) != str(value)):
            raise invalid("Pod", name, f"{path}.resources: limits must be set for non overcommitable resources")


def _quota(cluster: "Cluster", namespace: str, name: str) -> None:
    used = sum(key[0] == namespace for key in cluster.core("pods"))
    for (where, quota), one in cluster.core("resourcequotas").items():
        hard = (one.get("spec") or {}).get("hard") or {}
        most = hard.get("pods") or hard.get("count/pods")
        if where == namespace and most is not None and used + 1 > int(most):
            raise forbidden(
                "pods", name, f"exceeded quota: {quota}, requested: pods=1, used: pods={used}, limited: pods={most}"
            )


def on_update(kind: Kind, before: Object, after: Object, sub: str) -> None:
    check_names(kind, after["metadata"]["name"], after["metadata"])
    if kind.plural != "pods" or sub in ("binding", "status"):
        return

    def fixed(pod: Object) -> Object:
        spec = {key: value for key, value in pod["spec"].items() if key not in MUTABLE}
        bare = [{k: v for k, v in one.items() if k != "image"} for one in spec["containers"]]
        return {**spec, "containers": bare}

    if fixed(before) != fixed(after):
        what = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
        raise invalid("Pod", after["metadata"]["name"], f"spec: {what}")


def grace(kind: Kind, one: Object, options: Object) -> int:
    """Seconds that the kubelet gets. None for what no kubelet has, and what has ended."""
    if kind.plural != "pods":
        return 0
    if not one["spec"].get("nodeName") or one["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = options.get("gracePeriodSeconds")
    return int(one["spec"].get("terminationGracePeriodSeconds", 30) if wanted is None else wanted)


def bind(pod: Object, body: Object) -> Object:
    name, target = pod["metadata"]["name"], (body.get("target") or {}).get("name")
    if not target:
        raise invalid("Binding", name, "target.name: Required value")
    wanted = (body.get("metadata") or {}).get("uid")
    if wanted not in (None, "", pod["metadata"]["uid"]):
        raise conflict("pods/binding", name, f"Precondition failed: UID in precondition: {wanted}")
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    pod["spec"]["nodeName"] = target
    notes = (body.get("metadata") or {}).get("annotations") or {}
    if notes:
        pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | notes
    pod["status"].setdefault("conditions", []).append({"type": "PodScheduled", "status": "True"})
    return pod
