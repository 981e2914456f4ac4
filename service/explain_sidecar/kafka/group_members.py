"""The members of a group, and how a dead one leaves it, by kafka-python: librdkafka may end the process where a connection breaks while it asks (librdkafka#4605).

For groups of KIP-848 kafka-python lacks the requests: ConsumerGroupDescribe and ConsumerGroupHeartbeat, version 0.
"""

from __future__ import annotations

from typing import Any

from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import GroupIdNotFoundError, KafkaError, UnknownMemberIdError, for_code
from kafka.protocol.api_message import ApiMessage, ApiMessageData

Members = dict[str, str | None]
"""Their stable names, if they have one, by id."""

LEAVES, IS_BACK_SOON = -1, -2
"""In place of an epoch. One with a stable name that is back soon keeps its partitions."""


def _fields(text: str, **inner: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fields by name and type, as Kafka describes them; one that may be null has a ? behind the type, and ``inner`` has the fields of types."""
    found = []
    for name, kind in map(str.split, text.split(",")):
        kind, nullable, _ = kind.partition("?")
        kind, _, default = kind.partition("=")
        field: dict[str, Any] = {"name": name, "type": kind, "versions": "0+"}
        field |= {"nullableVersions": "0+", "default": "null"} if nullable else {}
        field |= {"default": default} if default else {}
        field |= {"fields": inner[kind.removeprefix("[]")]} if kind.removeprefix("[]") in inner else {}
        found.append(field)
    return found


def _messages(key: int, request: list[dict[str, Any]], response: list[dict[str, Any]]) -> list[Any]:
    """kafka-python makes a message of the description of that name that it has; here its fields are others."""

    def message(kind: str, fields: list[dict[str, Any]]) -> Any:
        def json_patch(_: type, known: dict[str, Any]) -> dict[str, Any]:
            return known | {"apiKey": key, "validVersions": "0", "flexibleVersions": "0+", "fields": fields}

        return ApiMessageData(f"Heartbeat{kind}", (ApiMessage,), {"json_patch": classmethod(json_patch)})

    return [message("Request", request), message("Response", response)]


_PARTITIONS = _fields("TopicId uuid, Partitions []int32")
_Heartbeat, _Beaten = _messages(
    68,
    _fields(
        "GroupId string, MemberId string, MemberEpoch int32, InstanceId string?, RackId string?, RebalanceTimeoutMs int32=-1, "
        "SubscribedTopicNames []string?, ServerAssignor string?, TopicPartitions []TopicPartitions?",
        TopicPartitions=_PARTITIONS,
    ),
    _fields(
        "ThrottleTimeMs int32, ErrorCode int16, ErrorMessage string?, MemberId string?, MemberEpoch int32, HeartbeatIntervalMs int32, "
        "Assignment Assignment?",
        Assignment=_fields("Topics []TopicPartitions", TopicPartitions=_PARTITIONS),
    ),
)
_NAMED = _fields("TopicId uuid, TopicName string, Partitions []int32")
_MEMBER = _fields(
    "MemberId string, InstanceId string?, RackId string?, MemberEpoch int32, ClientId string, ClientHost string, "
    "SubscribedTopicNames []string, SubscribedTopicRegex string?, Assignment Assignment, TargetAssignment Assignment",
    Assignment=_fields("Topics []TopicPartitions", TopicPartitions=_NAMED),
)
_GROUP = _fields(
    "ErrorCode int16, ErrorMessage string?, GroupId string, GroupState string, GroupEpoch int32, AssignmentEpoch int32, "
    "AssignorName string, Members []Member, AuthorizedOperations int32",
    Member=_MEMBER,
)
_Describe, _Described = _messages(
    69,
    _fields("GroupIds []string, IncludeAuthorizedOperations bool"),
    _fields("ThrottleTimeMs int32, Groups []DescribedGroup", DescribedGroup=_GROUP),
)


def _asked(client: KafkaAdminClient, group: str, request: Any) -> Any:
    """The coordinator's answer."""

    async def send() -> Any:
        coordinator = await client._find_coordinator_id(group)
        return await client._manager.send(request, node_id=coordinator)

    return client._manager.run(send)


def _raise(answer: Any, fine: type[KafkaError]) -> None:
    """Raise the error of an answer, if there is one that is not fine."""
    error = for_code(answer.error_code)
    if answer.error_code and error is not fine:
        raise error(answer.error_message)


def members_named(client: KafkaAdminClient, group: str, protocol: str, name: str) -> Members:
    """The members of a group of a protocol, "classic" or "consumer", whose client id is the name. Raises ``KafkaError``."""
    if protocol == "classic":
        found = client.describe_groups([group])[group]
        if found["error"]:
            raise KafkaError(found["error"])
        return {
            one["member_id"]: one.get("group_instance_id")
            for one in found["members"]
            if one["client_id"] == name
        }
    request = _Describe(group_ids=[group], include_authorized_operations=False)
    (described,) = _asked(client, group, request).groups
    _raise(described, GroupIdNotFoundError)
    return {one.member_id: one.instance_id for one in described.members if one.client_id == name}


def remove(client: KafkaAdminClient, group: str, protocol: str, members: Members) -> None:
    """Take dead members out of a group; under the protocol "consumer" one with a stable name for as long as it is away. Raises ``KafkaError``."""
    if protocol == "classic":
        # One with a stable name keeps its partitions until it is back; that is what the name is for.
        dynamic = [
            MemberToRemove(member, reason="its process was killed")
            for member, instance in members.items()
            if not instance
        ]
        if dynamic:
            client.remove_group_members(group, dynamic)
        return
    for member, instance in members.items():
        epoch = IS_BACK_SOON if instance else LEAVES
        request = _Heartbeat(group_id=group, member_id=member, member_epoch=epoch, instance_id=instance)
        _raise(_asked(client, group, request), UnknownMemberIdError)
