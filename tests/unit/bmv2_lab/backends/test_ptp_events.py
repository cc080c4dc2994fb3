# SPDX-License-Identifier: Apache-2.0
"""ptp4l's slave_event_monitor: datagrams as linuxptp 3.1.1 sent them, and the exchanges in them."""

from dataclasses import replace

import pytest

from bmv2_lab.backends.ptp_events import (
    EventTlv,
    ExchangePairing,
    PortIdentity,
    PtpEventError,
    TimingEvent,
    parse_timing_events,
)
from controller.fabric_generate import leaf_spine

SYNC = bytes.fromhex(
    "0c02005c00000000000000000000000000000000020000fffe00010200000001057fffffffffffffffffffff"
    "8004002c020000fffe0001010001000000006b0c971b35bf2165"
    "00000000000000000000000000006b0c971b35ce8070"
)
DELAY = bytes.fromhex(
    "0c02005800000000000000000000000000000000020000fffe00020200000000057fffffffffffffffffffff"
    "7f000028020000fffe0001010001000000006b0c971b1dfb902a000000000000000000006b0c971b1e235a24"
)
TRANSMITTER = PortIdentity(0x020000FFFE000101, 1)
H2 = 0x020000FFFE000102

FABRIC = leaf_spine(leaves=2, spines=2)


def sync(sequence_id: int, sent_ns: int = 1_000) -> TimingEvent:
    """A Sync to h2 that took 500 ns."""
    return TimingEvent(
        tlv=EventTlv.SLAVE_RX_SYNC_TIMING_DATA,
        domain=0,
        client=H2,
        transmitter=TRANSMITTER,
        sequence_id=sequence_id,
        sent_ns=sent_ns,
        received_ns=sent_ns + 500,
        correction_scaled_ns=3 << 16,
    )


def delay(sequence_id: int, sent_ns: int = 2_000) -> TimingEvent:
    """A Delay_Req of h2 that took 700 ns."""
    return replace(
        sync(sequence_id, sent_ns),
        tlv=EventTlv.SLAVE_DELAY_TIMING_DATA_NP,
        received_ns=sent_ns + 700,
        correction_scaled_ns=-1,
    )


def pairing() -> ExchangePairing:
    """The exchanges of h2."""
    return ExchangePairing(FABRIC.host("h2"), [FABRIC.host("h1")], FABRIC.ptp)


def test_a_sync_event_gives_t1_and_t2() -> None:
    """Its datagram holds sender, sequenceId, t1, the total correction and t2."""
    assert parse_timing_events(SYNC) == [
        TimingEvent(
            tlv=EventTlv.SLAVE_RX_SYNC_TIMING_DATA,
            domain=0,
            client=H2,
            transmitter=TRANSMITTER,
            sequence_id=0,
            sent_ns=1_795_987_227_901_718_373,
            received_ns=1_795_987_227_902_725_744,
            correction_scaled_ns=0,
        )
    ]


def test_a_delay_event_gives_t3_and_t4() -> None:
    """Its datagram holds the responder, sequenceId, t3, the total correction and t4."""
    (event,) = parse_timing_events(DELAY)
    assert event.tlv is EventTlv.SLAVE_DELAY_TIMING_DATA_NP
    assert event.client == 0x020000FFFE000202
    assert event.transmitter == TRANSMITTER
    assert (event.sent_ns, event.received_ns) == (
        1_795_987_227_503_025_706,
        1_795_987_227_505_633_316,
    )


@pytest.mark.parametrize("datagram", [SYNC, DELAY], ids=["sync", "delay"])
def test_a_datagram_cut_anywhere_is_refused(datagram: bytes) -> None:
    """Every shorter datagram raises PtpEventError and nothing else."""
    for size in range(len(datagram)):
        with pytest.raises(PtpEventError):
            parse_timing_events(datagram[:size])


def test_other_messages_are_refused_and_other_tlvs_ignored() -> None:
    """A management message is an error; a signalling message with another TLV tells nothing."""
    with pytest.raises(PtpEventError, match="message type 13"):
        parse_timing_events(b"\x0d" + SYNC[1:])
    assert parse_timing_events(SYNC[:44] + b"\x00\x04" + SYNC[46:]) == []


def test_several_records_in_one_tlv_are_all_read() -> None:
    """The TLV's length says how many records it has."""
    longer = SYNC[:46] + (44 + 34).to_bytes(2, "big") + SYNC[48:] + SYNC[58:]
    assert parse_timing_events(longer) == parse_timing_events(SYNC) * 2


def test_an_exchange_joins_a_delay_to_the_newest_sync() -> None:
    """Stamps, identities and whole ns of both corrections; -1/65536 ns rounds down."""
    client = pairing()
    assert client.feed(sync(7)) is None
    row = client.feed(delay(9))
    assert row is not None
    assert [int(row[f"t{n}_{c}_ns"]) for n, c in zip("1234", _CLOCKS, strict=True)] == [
        1_000,
        1_500,
        2_000,
        2_700,
    ]
    assert (int(row["c1_ns"]), int(row["c2_ns"])) == (3, -1)
    assert (int(row["sync_sequence_id"]), int(row["delay_req_sequence_id"])) == (7, 9)
    assert int(row["sync_clock_identity"]) == TRANSMITTER.clock_identity
    assert (int(row["delay_req_clock_identity"]), int(row["delay_req_port_number"])) == (H2, 1)
    assert int(row["client_ip"]) == FABRIC.host("h2").ip


def test_an_exchange_names_the_time_transmitter_that_answered() -> None:
    """Told by its clock's identity, which is its MAC address as an EUI-64; others are foreign."""
    h1, h3 = FABRIC.host("h1"), FABRIC.host("h3")
    client = ExchangePairing(FABRIC.host("h2"), [h1, h3], FABRIC.ptp)
    other = PortIdentity(0x020000FFFE000201, 1)
    client.feed(replace(sync(1), transmitter=other))
    row = client.feed(replace(delay(1), transmitter=other))
    assert row is not None
    assert int(row["time_transmitter_ip"]) == h3.ip
    stranger = PortIdentity(0x020000FFFE0000AA, 1)
    client.feed(replace(sync(2), transmitter=stranger))
    assert client.feed(replace(delay(2), transmitter=stranger)) is None
    assert client.foreign == 1


_CLOCKS = ("reference", "local", "local", "reference")


def test_a_sync_is_used_once() -> None:
    """Two Delay_Reqs after two Syncs use both, newest first; a third has none left."""
    client = pairing()
    client.feed(sync(1))
    client.feed(sync(2))
    rows = [client.feed(delay(n)) for n in (1, 2, 3)]
    assert [None if row is None else int(row["sync_sequence_id"]) for row in rows] == [2, 1, None]


def test_events_of_another_domain_or_transmitter_are_counted() -> None:
    """Neither becomes part of an exchange."""
    client = pairing()
    assert client.feed(replace(sync(1), domain=4)) is None
    client.feed(sync(1))
    assert client.feed(replace(delay(1), transmitter=PortIdentity(5, 1))) is None
    assert client.foreign == 2
