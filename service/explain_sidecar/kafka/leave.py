"""How a member of a group of KIP-848 leaves it: the request that kafka-python lacks, ConsumerGroupHeartbeat, version 0."""

from __future__ import annotations

from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import UnknownMemberIdError, for_code
from kafka.protocol.api_message import ApiMessage, ApiMessageData

API_KEY = 68
LEAVES, IS_BACK_SOON = -1, -2
"""In place of an epoch. One with a stable name that is back soon keeps its partitions."""


def _field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": "0+", **more}


def _nullable(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return _field(name, kind, nullableVersions="0+", default="null", **more)


def _message(kind: str, fields: list[dict[str, Any]]) -> Any:
    """kafka-python makes a message of the description of that name that it has; here its fields are others."""

    def json_patch(_: type, known: dict[str, Any]) -> dict[str, Any]:
        return known | {
            "apiKey": API_KEY,
            "validVersions": "0",
            "flexibleVersions": "0+",
            "fields": fields,
        }

    return ApiMessageData(f"Heartbeat{kind}", (ApiMessage,), {"json_patch": classmethod(json_patch)})


_PARTITIONS = [_field("TopicId", "uuid"), _field("Partitions", "[]int32")]
_Request = _message(
    "Request",
    [
        _field("GroupId", "string"),
        _field("MemberId", "string"),
        _field("MemberEpoch", "int32"),
        _nullable("InstanceId", "string"),
        _nullable("RackId", "string"),
        _field("RebalanceTimeoutMs", "int32", default="-1"),
        _nullable("SubscribedTopicNames", "[]string"),
        _nullable("ServerAssignor", "string"),
        _nullable("TopicPartitions", "[]TopicPartitions", fields=_PARTITIONS),
    ],
)
_Response = _message(
    "Response",
    [
        _field("ThrottleTimeMs", "int32"),
        _field("ErrorCode", "int16"),
        _nullable("ErrorMessage", "string"),
        _nullable("MemberId", "string"),
        _field("MemberEpoch", "int32"),
        _field("HeartbeatIntervalMs", "int32"),
        _nullable(
            "Assignment",
            "Assignment",
            fields=[_field("TopicPartitions", "[]TopicPartitions", fields=_PARTITIONS)],
        ),
    ],
)


def leave(client: KafkaAdminClient, group: str, member: str, instance: str | None = None) -> None:
    """Take a member out of a group; one with ``instance``, its stable name, for as long as it is away. Raises ``KafkaError``."""
    request = _Request(
        group_id=group,
        member_id=member,
        member_epoch=IS_BACK_SOON if instance else LEAVES,
        instance_id=instance,
    )

    async def send() -> Any:
        coordinator = await client._find_coordinator_id(group)
        return await client._manager.send(request, node_id=coordinator)

    answer = client._manager.run(send)
    error = for_code(answer.error_code)
    if answer.error_code and error is not UnknownMemberIdError:
        raise error(answer.error_message)
