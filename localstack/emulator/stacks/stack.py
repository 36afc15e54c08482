"""One stack: what a template would change, carried out in order, rolled back when a resource refuses."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from .resources import HANDLERS, Client, Json
from .template import Invalid, Template


@dataclass
class Resource:
    kind: str
    physical: str
    properties: Json
    attributes: dict[str, str]
    retained: bool
    tags: dict[str, str]


@dataclass
class Stack:
    name: str
    arn: str
    status: str = "REVIEW_IN_PROGRESS"
    reason: str = ""
    parameters: list[Json] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)
    template: str = ""
    outputs: list[Json] = field(default_factory=list)
    resources: dict[str, Resource] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    def changes(self, template: Template, tags: dict[str, str]) -> list[Json]:
        """What a change set says: one entry for each resource that comes, changes or goes.

        The stack's tags reach every resource that can carry some.
        """
        wanted = template.resources()
        unknown = sorted({resource["Type"] for resource in wanted.values()} - set(HANDLERS))
        if unknown:
            raise Invalid(f"Template format error: Unrecognized resource types: {unknown}")
        changes = []
        for name, resource in wanted.items():
            old = self.resources.get(name)
            if old is None:
                changes.append(_change("Add", name, resource["Type"], "", "None"))
                continue
            new = self._properties(template, resource)
            if new != old.properties or (tags != old.tags and HANDLERS[old.kind].taggable):
                replaced = "True" if _replaced(old, new) else "False"
                changes.append(_change("Modify", name, old.kind, old.physical, replaced))
        for name, old in self.resources.items():
            if name not in wanted:
                changes.append(_change("Remove", name, old.kind, old.physical, "None"))
        return changes

    def carry_out(self, client: Client, template: Template) -> None:
        """Creates or updates; on refusal everything goes back to where it was."""
        verb = "UPDATE" if self.resources else "CREATE"
        before = dict(self.resources)
        self._event(self.name, "AWS::CloudFormation::Stack", self.arn, f"{verb}_IN_PROGRESS")
        try:
            for name, resource in template.resources().items():
                self._bring(client, template, name, resource)
            for name in [name for name in reversed(self.resources) if name not in template.resources()]:
                self._remove(client, name)
            self.outputs = template.outputs(self.attribute)
            self.status = f"{verb}_COMPLETE"
        except Exception as error:  # whatever a service refuses ends up in the events
            self._roll_back(client, before, str(error))
            self.status = "UPDATE_ROLLBACK_COMPLETE" if before else "ROLLBACK_COMPLETE"
        self._event(self.name, "AWS::CloudFormation::Stack", self.arn, self.status)

    def delete(self, client: Client) -> None:
        self._event(self.name, "AWS::CloudFormation::Stack", self.arn, "DELETE_IN_PROGRESS")
        try:
            for name in list(reversed(self.resources)):
                self._remove(client, name)
            self.status, self.reason = "DELETE_COMPLETE", ""
        except Exception as error:  # whatever a service refuses ends up in the events
            self.status, self.reason = "DELETE_FAILED", str(error)
        self._event(self.name, "AWS::CloudFormation::Stack", self.arn, self.status)

    def attribute(self, name: str, attribute: str | None) -> str:
        if name not in self.resources:
            raise Invalid(f"Template format error: Unresolved resource dependency [{name}]")
        resource = self.resources[name]
        if attribute is None:
            return resource.physical
        if attribute not in resource.attributes:
            raise Invalid(f"Template error: resource {name} does not support attribute type {attribute}")
        return resource.attributes[attribute]

    def _properties(self, template: Template, resource: Json) -> Json:
        """Resolved properties; a reference to what does not exist yet counts as different from everything."""
        try:
            resolved: Json = template.resolve(resource["Properties"], self.attribute)
        except Invalid:
            return {"Unknown": object()}
        return resolved

    def _bring(self, client: Client, template: Template, name: str, resource: Json) -> None:
        kind, properties = resource["Type"], template.resolve(resource["Properties"], self.attribute)
        handler, old = HANDLERS[kind], self.resources.get(name)
        same_tags = old is not None and (old.tags == self.tags or not handler.taggable)
        if old is not None and old.properties == properties and same_tags:
            return
        replace = old is not None and _replaced(old, properties)
        doing = "UPDATE" if old is not None else "CREATE"
        self._event(name, kind, old.physical if old else "", f"{doing}_IN_PROGRESS")
        try:
            if old is not None and not replace:
                handler.update(client, old.physical, old.properties, properties)
                if not same_tags:
                    handler.tag(client, old.physical, properties, self.tags)
                old.properties, old.tags = properties, dict(self.tags)
            else:
                if old is not None:
                    handler.delete(client, old.physical, old.properties)
                physical, attributes = handler.create(client, properties, self.tags)
                retained = resource.get("DeletionPolicy") == "Retain"
                self.resources[name] = Resource(kind, physical, properties, attributes, retained, dict(self.tags))
        except Exception as error:
            self._event(name, kind, "", f"{doing}_FAILED", str(error))
            raise
        self._event(name, kind, self.resources[name].physical, f"{doing}_COMPLETE")

    def _remove(self, client: Client, name: str) -> None:
        resource = self.resources[name]
        if resource.retained:
            del self.resources[name]
            self._event(name, resource.kind, resource.physical, "DELETE_SKIPPED")
            return
        try:
            HANDLERS[resource.kind].delete(client, resource.physical, resource.properties)
        except Exception as error:
            self._event(name, resource.kind, resource.physical, "DELETE_FAILED", str(error))
            raise
        del self.resources[name]
        self._event(name, resource.kind, resource.physical, "DELETE_COMPLETE")

    def _roll_back(self, client: Client, before: dict[str, Resource], reason: str) -> None:
        verb = "UPDATE_ROLLBACK" if before else "ROLLBACK"
        self._event(self.name, "AWS::CloudFormation::Stack", self.arn, f"{verb}_IN_PROGRESS", reason)
        for name in [name for name in reversed(self.resources) if name not in before]:
            self._remove(client, name)

    def _event(self, name: str, kind: str, physical: str, status: str, reason: str = "") -> None:
        self.events.append(
            {
                "EventId": f"{name}-{len(self.events)}",
                "StackId": self.arn,
                "StackName": self.name,
                "LogicalResourceId": name,
                "PhysicalResourceId": physical,
                "ResourceType": kind,
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
                "Timestamp": datetime.now(UTC),
            }
        )


def _replaced(old: Resource, new: Json) -> bool:
    return any(old.properties.get(name) != new.get(name, old.properties.get(name)) for name in HANDLERS[old.kind].fixed)


def _change(action: str, name: str, kind: str, physical: str, replacement: str) -> Json:
    change = {"Action": action, "LogicalResourceId": name, "PhysicalResourceId": physical, "ResourceType": kind}
    if replacement != "None":
        change["Replacement"] = replacement
    return {"Type": "Resource", "ResourceChange": change}
