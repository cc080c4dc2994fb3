# SPDX-License-Identifier: Apache-2.0
"""Role configurations: what the controllers of a role may do.

P4Runtime leaves their form open (section 5.2). This server knows the one that Stratum and finsy
use, `stratum.P4RoleConfig`; without a configuration a role may do everything.
"""

import re
from dataclasses import dataclass

from finsy.proto import p4r, stratum
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError

NUMBERED = "\0"  # in front of a role's number; no name begins so


def role_key(name: str, number: int) -> str:
    """One name for a role: its own, or that of the numbers that P4Runtime had until 1.3."""
    return name or (f"{NUMBERED}{number}" if number else "")


def role_message(key: str) -> p4r.Role | None:
    """The role as its controllers call it; None for the default role."""
    if not key:
        return None
    number = key.removeprefix(NUMBERED)
    if number != key and re.fullmatch(r"[0-9]{1,19}", number):
        return p4r.Role(id=int(number))
    return p4r.Role(name=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleConfig:
    """The rights of one role. Ids are those of tables, profiles, counters ... of the P4Info."""

    exclusive_ids: frozenset[int]
    shared_ids: frozenset[int]
    packet_in_filter: tuple[int, int] | None  # metadata id, value
    receives_packet_ins: bool
    can_push_pipeline: bool

    @classmethod
    def parse(cls, message: AnyMessage) -> "RoleConfig":
        """INVALID_ARGUMENT if it is of another form."""
        config = stratum.P4RoleConfig()
        try:
            known = message.Unpack(config)
        except DecodeError:
            known = False
        if not known:
            raise StateError(
                errors.INVALID_ARGUMENT, "role.config must be a stratum.P4RoleConfig, or unset"
            )
        wanted = config.packet_in_filter
        return cls(
            exclusive_ids=frozenset(config.exclusive_p4_ids),
            shared_ids=frozenset(config.shared_p4_ids),
            packet_in_filter=(wanted.metadata_id, int.from_bytes(wanted.value, "big"))
            if config.HasField("packet_in_filter")
            else None,
            receives_packet_ins=config.receives_packet_ins,
            can_push_pipeline=config.can_push_pipeline,
        )

    def allows(self, number: int | None) -> bool:
        """True if the role has the object; clone sessions and multicast groups are everybody's."""
        return number is None or number in self.exclusive_ids or number in self.shared_ids

    def wants_packet(self, packet: p4r.PacketIn) -> bool:
        """True if packets like this one go to the role."""
        if not self.receives_packet_ins or self.packet_in_filter is None:
            return self.receives_packet_ins
        number, value = self.packet_in_filter
        return any(
            item.metadata_id == number and int.from_bytes(item.value, "big") == value
            for item in packet.metadata
        )


def object_id(entity: p4r.Entity) -> int | None:
    """The P4Info id of the object that an entity belongs to; None if it has none."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return entity.table_entry.table_id
        case "direct_counter_entry":
            return entity.direct_counter_entry.table_entry.table_id
        case "direct_meter_entry":
            return entity.direct_meter_entry.table_entry.table_id
        case "action_profile_member":
            return entity.action_profile_member.action_profile_id
        case "action_profile_group":
            return entity.action_profile_group.action_profile_id
        case "counter_entry":
            return entity.counter_entry.counter_id
        case "meter_entry":
            return entity.meter_entry.meter_id
        case "value_set_entry":
            return entity.value_set_entry.value_set_id
        case "digest_entry":
            return entity.digest_entry.digest_id
        case "register_entry":
            return entity.register_entry.register_id
    return None
