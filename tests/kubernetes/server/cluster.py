"""What the server keeps: objects, one counter of versions, and a log of what happened for watches.

Strict where the real one is: versions, uids, finalizers, grace of pods, owners, namespaces that end.
"""

import base64
import copy
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.kubernetes.server import patches, rules, schema, selectors
from tests.kubernetes.server.errors import Refusal, conflict, exists, forbidden, invalid, not_found
from tests.kubernetes.server.kinds import Kind, builtin, of_definition

Object = dict[str, Any]
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
SERVERS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


@dataclass(frozen=True)
class Event:
    version: int
    kind: tuple[str, str]
    namespace: str
    before: Object | None
    after: Object | None


class Cluster:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.kinds = {(one.prefix, one.plural): one for one in builtin()}
        self.objects: dict[tuple[str, str], dict[tuple[str, str], Object]] = {}
        self.log: list[Event] = []
        self.version = 100
        self.oldest = 100
        self.watches = 0  # watches that began before it changed end
        self.logs: dict[tuple[str, str, str], str] = {}
        for name in NAMESPACES:
            self.create(self.kinds["/api/v1", "namespaces"], "", {"metadata": {"name": name}})

    # -- reading -------------------------------------------------------------------------------------

    def of(self, kind: Kind) -> dict[tuple[str, str], Object]:
        return self.objects.setdefault((kind.group, kind.plural), {})

    def core(self, plural: str) -> dict[tuple[str, str], Object]:
        return self.objects.setdefault(("", plural), {})

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self.of(kind).get((namespace, name))
        if found is None:
            raise not_found(kind.resource, name)
        return _as(kind, found)

    def items(self, kind: Kind, namespace: str, query: dict[str, str]) -> Object:
        test = chosen(query)
        start: tuple[str, str] = ("", "")
        with self.lock:
            version = self.version
            if query.get("continue"):
                token = json.loads(base64.b64decode(query["continue"]))
                version, start = token["version"], tuple(token["start"])
                if version < self.oldest:
                    raise Refusal(410, "The provided continue parameter is too old to display a consistent list result")
            items = sorted(
                (key, one)
                for key, one in self.of(kind).items()
                if (not namespace or key[0] == namespace) and key > start and test(one)
            )
        limit = int(query.get("limit") or 0)
        meta: Object = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            token_ = json.dumps({"version": version, "start": items[limit - 1][0]}).encode()
            meta |= {"continue": base64.b64encode(token_).decode(), "remainingItemCount": len(items) - limit}
            items = items[:limit]
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": meta,
            "items": [_as(kind, one) for _, one in items],
        }

    def watch(self, kind: Kind, namespace: str, query: dict[str, str], bookmark: float) -> Iterator[Object | None]:
        """Events as they are written; None now and then, so that the connection can be looked at."""
        test = chosen(query)
        began, wanted = self.watches, query.get("resourceVersion") or "0"
        until = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
        marks = query.get("allowWatchBookmarks") == "true"
        with self.lock:
            seen = int(wanted) if wanted != "0" else self.version
            initial = (
                []
                if wanted != "0"
                else [
                    one
                    for key, one in sorted(self.of(kind).items())
                    if (not namespace or key[0] == namespace) and test(one)
                ]
            )
            if seen < self.oldest:
                gone = f"too old resource version: {seen} ({self.oldest})"
                yield {"type": "ERROR", "object": Refusal(410, gone).status()}
                return
        for one in initial:
            yield {"type": "ADDED", "object": _as(kind, one)}
        marked = time.monotonic()
        while time.monotonic() < until and began == self.watches:
            with self.lock:
                if not self._after(seen):
                    self.changed.wait(min(0.2, max(until - time.monotonic(), 0.01)))
                if seen < self.oldest:
                    yield {"type": "ERROR", "object": Refusal(410, f"too old resource version: {seen}").status()}
                    return
                news = self._after(seen)
                seen = news[-1].version if news else seen
            for event in news:
                told = _told(event, kind, namespace, test)
                if told is not None:
                    yield told
            if marks and time.monotonic() - marked >= bookmark:
                marked = time.monotonic()
                yield self._bookmark(kind, seen)
            yield None
        if marks and began == self.watches:
            yield self._bookmark(kind, seen)

    def _after(self, version: int) -> list[Event]:
        if not self.log or self.log[-1].version <= version:
            return []
        place = len(self.log)
        while place and self.log[place - 1].version > version:
            place -= 1
        return self.log[place:]

    def _bookmark(self, kind: Kind, version: int) -> Object:
        meta = {"resourceVersion": str(version), "creationTimestamp": None}
        return {"type": "BOOKMARK", "object": {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}}

    # -- writing -------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, body: Object, dry: bool = False) -> Object:
        meta = body.setdefault("metadata", {})
        name = meta.get("name") or (meta["generateName"] + uuid.uuid4().hex[:5] if meta.get("generateName") else "")
        self._may_be(kind, namespace, name, body)
        with self.lock:
            if (namespace, name) in self.of(kind):
                raise exists(kind.resource, name)
            self._namespace_is_open(kind, namespace, name)
            made = {**copy.deepcopy(body), "metadata": {k: v for k, v in meta.items() if k not in SERVERS}}
            made["metadata"] |= {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": stamp(), "generation": 1}
            if kind.namespaced:
                made["metadata"]["namespace"] = namespace
            if kind.status and (kind.group or kind.plural in ("pods", "services")):
                made.pop("status", None)
            made = self._sound(kind, name, made)
            rules.on_create(self, kind, made)
            if not dry:
                self._write(kind, (namespace, name), None, made)
                self._created(kind, made)
            return _as(kind, made)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        sub: str = "",
        dry: bool = False,
    ) -> Object:
        """`change` makes the new one of the old one."""
        with self.lock:
            before = self.of(kind).get((namespace, name))
            if before is None:
                raise not_found(kind.resource, name)
            after = change(copy.deepcopy(before))
            meta, old = after.get("metadata") or {}, before["metadata"]
            if meta.get("uid") not in (None, "", old["uid"]):
                why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['uid']}"
                raise conflict(kind.resource, name, why)
            if meta.get("resourceVersion") not in (None, "", old["resourceVersion"]):
                raise conflict(kind.resource, name)
            after["metadata"] = meta | {key: old[key] for key in SERVERS if key in old}
            after["metadata"] |= {"name": name, "resourceVersion": old["resourceVersion"]}
            after = self._parts(kind, before, after, sub)
            added = set(after["metadata"].get("finalizers") or ()) - set(old.get("finalizers") or ())
            if old.get("deletionTimestamp") and added:
                raise forbidden(kind.resource, name, "no new finalizers can be added if the object is being deleted")
            after = self._sound(kind, name, after)
            rules.on_update(kind, before, after, sub)
            if after == before:
                return _as(kind, before)
            if after.get("spec") != before.get("spec") and kind.plural != "pods":
                after["metadata"]["generation"] = int(old.get("generation", 1)) + 1
            if dry:
                return _as(kind, after)
            if old.get("deletionTimestamp") and not after["metadata"].get("finalizers") and self._over(kind, after):
                self._remove(kind, (namespace, name), after)
            else:
                self._write(kind, (namespace, name), before, after)
            return _as(kind, after)

    def _parts(self, kind: Kind, before: Object, after: Object, sub: str) -> Object:
        """A subresource changes its part and metadata that are nobody else's, the object all but its status."""
        if sub == "status":
            meta = before["metadata"] | {
                key: after["metadata"][key] for key in ("labels", "annotations") if key in after["metadata"]
            }
            return {**before, "metadata": meta, "status": after.get("status", {})}
        if kind.status and not sub:
            kept = {"status": before["status"]} if "status" in before else {}
            return {**{key: value for key, value in after.items() if key != "status"}, **kept}
        return after

    def patch(self, kind: Kind, namespace: str, name: str, body: Any, content_type: str, sub: str, dry: bool) -> Object:
        if kind.group and "strategic" in content_type and kind.schema is not None:
            raise Refusal(415, "the body of the request was in an unknown format - strategic merge patch")
        return self.update(kind, namespace, name, lambda old: patches.apply(old, body, content_type), sub, dry)

    def delete(self, kind: Kind, namespace: str, name: str, options: Object | None = None) -> Object:
        options = options or {}
        with self.lock:
            before = self.of(kind).get((namespace, name))
            if before is None:
                raise not_found(kind.resource, name)
            for field, key in (("uid", "uid"), ("resourceVersion", "resourceVersion")):
                wanted, own = (options.get("preconditions") or {}).get(field), before["metadata"][key]
                if wanted not in (None, own):
                    word = {"uid": "UID", "resourceVersion": "ResourceVersion"}[field]
                    why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {own}"
                    raise conflict(kind.resource, name, why)
            if options.get("dryRun"):
                return _as(kind, before)
            after = copy.deepcopy(before)
            grace = rules.grace(kind, before, options)
            meta = after["metadata"]
            known = meta.get("deletionGracePeriodSeconds")
            if meta.get("deletionTimestamp") is None or (known is not None and grace < known):
                meta |= {"deletionTimestamp": stamp(grace), "deletionGracePeriodSeconds": grace}
            if meta["deletionGracePeriodSeconds"] > 0 or meta.get("finalizers") or not self._over(kind, after):
                if after != before:
                    self._write(kind, (namespace, name), before, after)
                if kind.plural == "namespaces":
                    self._end_namespace(name)
                return _as(kind, after)
            self._remove(kind, (namespace, name), after)
            return _as(kind, after)

    # -- what follows from writing -------------------------------------------------------------------

    def _over(self, kind: Kind, one: Object) -> bool:
        """Whether nothing but finalizers keeps it."""
        if kind.plural == "namespaces":
            return not any(key[0] == one["metadata"]["name"] for objects in self.objects.values() for key in objects)
        return not one["metadata"].get("deletionGracePeriodSeconds")

    def _write(self, kind: Kind, key: tuple[str, str], before: Object | None, after: Object) -> None:
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        self.of(kind)[key] = after
        self.log.append(Event(self.version, (kind.group, kind.plural), key[0], before, after))
        self.changed.notify_all()

    def _remove(self, kind: Kind, key: tuple[str, str], last: Object) -> None:
        self.version += 1
        last["metadata"]["resourceVersion"] = str(self.version)
        del self.of(kind)[key]
        self.log.append(Event(self.version, (kind.group, kind.plural), key[0], last, None))
        self.changed.notify_all()
        if kind.plural == "customresourcedefinitions":
            for one in of_definition(last):
                self.kinds.pop((one.prefix, one.plural), None)
        self._collect(last["metadata"]["uid"])
        self._close_namespace(key[0])

    def _collect(self, owner: str) -> None:
        """What nobody owns any more goes, too."""
        for kind in list(self.kinds.values()):
            for (namespace, name), one in list(self.of(kind).items()):
                owners = one["metadata"].get("ownerReferences") or ()
                if owners and all(ref["uid"] == owner for ref in owners) and (namespace, name) in self.of(kind):
                    self.delete(kind, namespace, name)

    def _created(self, kind: Kind, made: Object) -> None:
        if kind.plural == "customresourcedefinitions":
            for one in of_definition(made):
                self.kinds[one.prefix, one.plural] = one
            conditions = [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]
            key = ("", made["metadata"]["name"])
            self._write(kind, key, made, {**copy.deepcopy(made), "status": {"conditions": conditions}})
        if kind.plural == "namespaces":
            accounts = self.kinds["/api/v1", "serviceaccounts"]
            self.create(accounts, made["metadata"]["name"], {"metadata": {"name": "default"}})

    def _end_namespace(self, name: str) -> None:
        for kind in [one for one in self.kinds.values() if one.namespaced]:
            for namespace, other in list(self.of(kind)):
                if namespace == name and (namespace, other) in self.of(kind):
                    self.delete(kind, namespace, other)
        self._close_namespace(name)

    def _close_namespace(self, name: str) -> None:
        kind = self.kinds["/api/v1", "namespaces"]
        found = self.of(kind).get(("", name)) if name else None
        if found is not None and found["metadata"].get("deletionTimestamp") and self._over(kind, found):
            self._remove(kind, ("", name), copy.deepcopy(found))

    # -- checks --------------------------------------------------------------------------------------

    def _may_be(self, kind: Kind, namespace: str, name: str, body: Object) -> None:
        if body.get("kind") not in (None, kind.kind) or body.get("apiVersion") not in (None, kind.api_version):
            found = f"{body.get('apiVersion')}, Kind={body.get('kind')}"
            raise Refusal(400, f"{found} in the body does not match {kind.api_version}, Kind={kind.kind}")
        told = body["metadata"].get("namespace")
        if told not in (None, "", namespace):
            raise Refusal(400, "the namespace of the provided object does not match the namespace sent on the request")
        if not name:
            raise Refusal(
                422, f"{kind.kind} is invalid: metadata.name: Required value: name or generateName is required"
            )
        rules.check_names(kind, name, body["metadata"])
        body["kind"], body["apiVersion"] = kind.kind, kind.api_version

    def _namespace_is_open(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        found = self.core("namespaces").get(("", namespace))
        if found is None:
            raise not_found("namespaces", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind.resource, name, why)

    def _sound(self, kind: Kind, name: str, one: Object) -> Object:
        if kind.schema is None:
            return one
        top = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        whole = {**kind.schema, "properties": {**(kind.schema.get("properties") or {}), **top}}
        whole["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        pruned: Object = schema.prune(one, whole)
        if bad := schema.complaints(pruned, whole):
            raise invalid(f"{kind.kind}.{kind.group}", name, "; ".join(bad))
        return pruned


def chosen(query: dict[str, str]) -> selectors.Test:
    by_label, by_field = (
        selectors.labels(query.get("labelSelector", "")),
        selectors.fields(query.get("fieldSelector", "")),
    )
    return lambda one: by_label(one) and by_field(one)


def stamp(later: float = 0.0) -> str:
    return datetime.fromtimestamp(time.time() + later, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as(kind: Kind, one: Object) -> Object:
    return {**one, "kind": kind.kind, "apiVersion": kind.api_version}


def _told(event: Event, kind: Kind, namespace: str, test: selectors.Test) -> Object | None:
    """What a watch with this selector sees of an event: an object that no longer fits is deleted for it."""
    if event.kind != (kind.group, kind.plural) or (namespace and event.namespace != namespace):
        return None
    was = event.before is not None and test(event.before)
    is_ = event.after is not None and test(event.after)
    if not was and not is_:
        return None
    word = "ADDED" if not was else "MODIFIED" if is_ else "DELETED"
    shown = event.after if event.after is not None else event.before
    if word == "DELETED" and event.after is not None and event.before is not None:
        version = {"resourceVersion": str(event.version)}
        shown = {**event.before, "metadata": event.before["metadata"] | version}
    return {"type": word, "object": _as(kind, shown or {})}
