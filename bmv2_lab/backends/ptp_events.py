# SPDX-License-Identifier: Apache-2.0
"""What ptp4l's `slave_event_monitor` says: t1..t4 of every Sync and Delay_Req. Pure.

One PTP signalling message per datagram, big-endian. SLAVE_RX_SYNC_TIMING_DATA (IEEE 1588-2019
clause 16.11.4.1) has t1, the total correction and t2 of Syncs; linuxptp's own
SLAVE_DELAY_TIMING_DATA_NP has t3, the correction and t4 of Delay_Reqs.
"""

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import NamedTuple

import numpy as np

from controller.fabric import Host, Ptp
from correction.records import EXCHANGE_DTYPE

SIGNALLING = 0xC
HEADER_BYTES = 44
"""Common header and targetPortIdentity."""
SYNCS_KEPT = 4
"""Unused Syncs of a client; older ones are too far from the Delay_Req, the clocks drifting."""
CLIENT_PORT_NUMBER = 1
"""Of a daemon with one interface."""
SCALED_NS_BITS = 16
"""A correctionField counts 2^-16 ns; whole ns are rounded towards minus infinity, as elsewhere."""


class PtpEventError(ValueError):
    """A datagram that is no event message; `str()` says why."""


@unique
class EventTlv(IntEnum):
    """TLV types."""

    SLAVE_RX_SYNC_TIMING_DATA = 0x8004
    SLAVE_DELAY_TIMING_DATA_NP = 0x7F00


class PortIdentity(NamedTuple):
    """sourcePortIdentity."""

    clock_identity: int
    port_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingEvent:
    """Stamps of one message: Sync t1 and t2, or Delay_Req t3 and t4."""

    tlv: EventTlv
    domain: int
    client: int
    """Clock identity of the daemon that tells; it puts port number 0 there, not its port's."""
    transmitter: PortIdentity
    sequence_id: int
    sent_ns: int
    received_ns: int
    correction_scaled_ns: int
    """correctionField total, 2^-16 ns, with what delayAsymmetry the daemon applied."""


_PORT = struct.Struct(">QH")
_TLV = struct.Struct(">HH")
_SYNC = struct.Struct(">HHIIqiHII")
"""sequenceId, t1, totalCorrectionField, scaledCumulativeRateOffset, t2."""
_DELAY = struct.Struct(">HHIIqHII")
"""sequenceId, t3, totalCorrectionField, t4."""


def parse_timing_events(datagram: bytes) -> list[TimingEvent]:
    """The records of one datagram; none if it carries another TLV."""
    if len(datagram) < HEADER_BYTES + _TLV.size:
        raise PtpEventError(f"{len(datagram)} bytes; expected at least {HEADER_BYTES + _TLV.size}")
    if datagram[0] & 0xF != SIGNALLING:
        raise PtpEventError(f"message type {datagram[0] & 0xF}; expected {SIGNALLING}")
    kind, length = _TLV.unpack_from(datagram, HEADER_BYTES)
    try:
        tlv = EventTlv(kind)
    except ValueError:
        return []
    body = datagram[HEADER_BYTES + _TLV.size : HEADER_BYTES + _TLV.size + length]
    record = _SYNC if tlv is EventTlv.SLAVE_RX_SYNC_TIMING_DATA else _DELAY
    if len(body) < length or length < _PORT.size or (length - _PORT.size) % record.size:
        raise PtpEventError(f"a TLV of {length} bytes in {len(body)}; expected whole records")
    client, _ = _PORT.unpack_from(datagram, 20)
    transmitter = PortIdentity(*_PORT.unpack_from(body))
    events = []
    for values in record.iter_unpack(body[_PORT.size :]):
        sequence_id, high, low, nanoseconds, correction = values[:5]
        received = values[-3:]
        events.append(
            TimingEvent(
                tlv=tlv,
                domain=datagram[4],
                client=client,
                transmitter=transmitter,
                sequence_id=sequence_id,
                sent_ns=_timestamp_ns(high, low, nanoseconds),
                received_ns=_timestamp_ns(*received),
                correction_scaled_ns=correction,
            )
        )
    return events


def _timestamp_ns(seconds_high: int, seconds_low: int, nanoseconds: int) -> int:
    return (seconds_high << 32 | seconds_low) * 1_000_000_000 + nanoseconds


def clock_identity(mac: int) -> int:
    """What ptp4l calls its clock: the interface's address as an EUI-64, ff-fe in its middle.

    >>> hex(clock_identity(0x020000000101))
    '0x20000fffe000101'
    """
    return mac >> 24 << 40 | 0xFFFE << 24 | mac & 0xFFFFFF


class ExchangePairing:
    """Makes exchanges of one client's events: each Delay_Req with the newest Sync not yet used.

    ptp4l sends Delay_Reqs at random times, at the rate of the Syncs on average, so a Sync may have
    none or two before the next; used twice it would be two measurements with one error.
    """

    def __init__(self, client: Host, transmitters: Sequence[Host], ptp: Ptp) -> None:
        """transmitters: hosts that it may follow; it tells them by their clocks' identities."""
        self.foreign = 0
        """Events of another domain, or of a time transmitter that is none of these."""
        self._client_ip = client.ip
        self._transmitter_ips = {clock_identity(host.mac): host.ip for host in transmitters}
        self._domain = ptp.domain
        self._syncs: deque[TimingEvent] = deque(maxlen=SYNCS_KEPT)

    def feed(self, event: TimingEvent) -> np.void | None:
        """The exchange, a row of `EXCHANGE_DTYPE`, that this event completes."""
        if event.domain != self._domain:
            self.foreign += 1
            return None
        if event.tlv is EventTlv.SLAVE_RX_SYNC_TIMING_DATA:
            self._syncs.append(event)
            return None
        if not self._syncs:
            return None
        sync = self._syncs.pop()
        transmitter_ip = self._transmitter_ips.get(sync.transmitter.clock_identity)
        if transmitter_ip is None or sync.transmitter != event.transmitter:
            self.foreign += 1
            return None
        row: np.void = np.zeros(1, dtype=EXCHANGE_DTYPE)[0]
        row["ptp_domain"] = event.domain
        row["time_transmitter_ip"] = transmitter_ip
        row["client_ip"] = self._client_ip
        row["sync_clock_identity"], row["sync_port_number"] = sync.transmitter
        row["sync_sequence_id"] = sync.sequence_id
        row["delay_req_clock_identity"] = event.client
        row["delay_req_port_number"] = CLIENT_PORT_NUMBER
        row["delay_req_sequence_id"] = event.sequence_id
        row["t1_reference_ns"] = sync.sent_ns
        row["t2_local_ns"] = sync.received_ns
        row["t3_local_ns"] = event.sent_ns
        row["t4_reference_ns"] = event.received_ns
        row["c1_ns"] = sync.correction_scaled_ns >> SCALED_NS_BITS
        row["c2_ns"] = event.correction_scaled_ns >> SCALED_NS_BITS
        return row
