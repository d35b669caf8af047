"""The resources that the server has: built in, and those of CustomResourceDefinitions."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kind:
    """`prefix` is /api/v1 or /apis/GROUP/VERSION."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    schema: Any = field(default=None, compare=False, hash=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def resource(self) -> str:
        """As in messages: pods, jobs.batch."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def builtin() -> list[Kind]:
    def core(plural: str, kind: str, namespaced: bool = True, status: bool = False) -> Kind:
        return Kind("", "v1", plural, kind, namespaced, status)

    return [
        core("pods", "Pod", status=True),
        core("nodes", "Node", namespaced=False, status=True),
        core("namespaces", "Namespace", namespaced=False, status=True),
        core("services", "Service", status=True),
        core("secrets", "Secret"),
        core("configmaps", "ConfigMap"),
        core("events", "Event"),
        core("serviceaccounts", "ServiceAccount"),
        core("resourcequotas", "ResourceQuota", status=True),
        core("persistentvolumeclaims", "PersistentVolumeClaim", status=True),
        Kind("coordination.k8s.io", "v1", "leases", "Lease"),
        Kind("batch", "v1", "jobs", "Job", status=True),
        Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", status=True),
        Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", status=True),
        Kind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
        Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False),
        Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False),
        Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, True),
    ]


def of_definition(crd: dict[str, Any]) -> list[Kind]:
    """The kinds that a CustomResourceDefinition brings, one for each served version."""
    spec = crd["spec"]
    return [
        Kind(
            spec["group"],
            one["name"],
            spec["names"]["plural"],
            spec["names"]["kind"],
            spec["scope"] == "Namespaced",
            "status" in (one.get("subresources") or {}),
            (one.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True},
        )
        for one in spec["versions"]
        if one["served"]
    ]
