// SPDX-License-Identifier: Apache-2.0
// What is this target's own: port numbers, the kinds of copies, and what it can measure.
#ifndef TEMPOTRACE_TARGET_P4
#define TEMPOTRACE_TARGET_P4

#define RECIRCULATION_PORT     509   // clones wait here until they are reports; nothing is sent from it
#define CPU_PORT               510
#define DROP_PORT              511   // BMv2's --drop-port

// Instance of a multicast replica that takes the tag off PTP over Ethernet; others are VLAN ids.
#define L2_PTP_INSTANCE_UNTAGGED 4095

// BMv2: values of standard_metadata.instance_type.
const bit<32> INSTANCE_TYPE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_TYPE_EGRESS_CLONE  = 2;
const bit<32> INSTANCE_TYPE_RECIRCULATED  = 4;
const bit<32> INSTANCE_TYPE_REPLICATED    = 5;

// What a report's own metadata can hold; other bits are cleared (Telemetry Report v2.0). v1model has neither
// transmit utilisation nor buffer occupancy; level 2 interfaces are known where the controller names them.
const int_bitmap_t REPORT_BITS_SUPPORTED = 0x7E00;

// RepMdBits of reports that no watchlist entry asked for.
const int_bitmap_t REPORT_BITS_STACK      = 0x4800;   // ports, ingress stamp
const int_bitmap_t REPORT_BITS_DROP       = 0x4801;   // ports, ingress stamp, queue id and drop reason
const int_bitmap_t REPORT_BITS_CONGESTION = 0x7C00;   // ports, latency, queue, both stamps

// A packet from the controller has no ingress stamp of a port, hence no latency either.
const int_bitmap_t REPORT_BITS_FROM_CPU   = 0x5600;

#endif
