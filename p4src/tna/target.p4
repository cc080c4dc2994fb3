// SPDX-License-Identifier: Apache-2.0
// What is this target's own, and the same on every generation of it.
#ifndef TEMPOTRACE_TNA_TARGET_P4
#define TEMPOTRACE_TNA_TARGET_P4

#if __TARGET_TOFINO__ == 1
#include "tofino1.p4"
#else
#include "tofino2.p4"
#endif

// What a report's own metadata can hold; other bits are cleared (Telemetry Report v2.0). There is no transmit
// utilisation and no buffer occupancy; level 2 interfaces are known where the controller names them.
const int_bitmap_t REPORT_BITS_SUPPORTED = 0x7E00;

// RepMdBits of reports that no watchlist entry asked for.
const int_bitmap_t REPORT_BITS_STACK      = 0x4800;   // ports, ingress stamp
const int_bitmap_t REPORT_BITS_DROP       = 0x4801;   // ports, ingress stamp, queue id and drop reason
const int_bitmap_t REPORT_BITS_CONGESTION = 0x7C00;   // ports, latency, queue, both stamps

// A packet from the controller has no ingress stamp of a port, hence no latency either.
const int_bitmap_t REPORT_BITS_FROM_CPU   = 0x5600;

// Report sequence numbers live in registers together with what stands above their 22 bits in a report.
const bit<32> FIRST_OF_INGRESS = (REPORT_VERSION ++ 6w0 ++ 22w0);
const bit<32> LAST_OF_INGRESS  = (REPORT_VERSION ++ 6w0 ++ 22w0x3FFFFF);
const bit<32> FIRST_OF_EGRESS  = (REPORT_VERSION ++ 6w1 ++ 22w0);
const bit<32> LAST_OF_EGRESS   = (REPORT_VERSION ++ 6w1 ++ 22w0x3FFFFF);

// First byte of everything that the egress parser sees: what it is, and how far to read it.
typedef bit<8> packet_kind_t;
const packet_kind_t KIND_PLAIN         = 0x01;   // IP header at most
const packet_kind_t KIND_INT_SOURCE    = 0x02;   // up to UDP: INT starts behind it
const packet_kind_t KIND_INT_TRANSIT   = 0x03;   // up to the INT-MD header: the entry goes behind it
const packet_kind_t KIND_INT_STRIP     = 0x04;   // up to UDP; shim, header and stack are skipped
const packet_kind_t KIND_PTP_EVENT     = 0x05;   // up to the correctionField
const packet_kind_t KIND_PROBE_OUT     = 0x06;   // a generated probe: it gets the port that it leaves by
const packet_kind_t KIND_PTP_CORRECTED = 0x07;   // KIND_PTP_EVENT with the header for the MAC in front
const packet_kind_t KIND_PTP_TOO_BIG   = 0x08;   // KIND_PTP_EVENT with a correctionField at its limit

// Mirrored: 1 E P D Q F tt. E: at egress. P: a PTP message without its correctionField. D, Q, F: the report's flags.
// tt: reported from Ethernet (1), IPv4 (2) or IPv6 (3) on.
const packet_kind_t KIND_RECEIVED      = 0x80;
const packet_kind_t KIND_HOP           = 0xC0;
const packet_kind_t KIND_PTP           = 0xE0;
const packet_kind_t KIND_DROPPED       = 0x10;
const packet_kind_t KIND_CONGESTED     = 0x08;
const packet_kind_t KIND_TRACKED       = 0x04;
const packet_kind_t KIND_ETHERNET      = 0x01;
const packet_kind_t KIND_IPV4          = 0x02;
const packet_kind_t KIND_IPV6          = 0x03;

// Values of mirror_type; 0 is no mirroring.
const MirrorType_t MIRROR_RECEIVED = 1;          // ingress: the packet as received
const MirrorType_t MIRROR_HOP      = 2;          // egress: the packet as it leaves

// A recirculated report starts with this byte; a generated packet starts with three zero bits.
const bit<8> RECIRCULATED_REPORT = 0xFF;

#endif
