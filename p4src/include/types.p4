// SPDX-License-Identifier: Apache-2.0
// Widths of everything that has a width. A bare bit<N> elsewhere is padding.
#ifndef TEMPOTRACE_TYPES_P4
#define TEMPOTRACE_TYPES_P4

typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<16> ether_type_t;
typedef bit<6>  dscp_t;
typedef bit<2>  ecn_t;
typedef bit<16> l4_port_t;
typedef bit<9>  port_t;            // v1model port number; 510 = CPU, 511 = drop
typedef bit<32> node_id_t;         // INT's name for the reporting device
typedef bit<8>  queue_id_t;        // as INT carries it; v1model priorities are 0..7
typedef bit<24> queue_depth_t;     // as INT carries it; v1model supplies 19 bits
typedef bit<48> tstamp_t;          // the node's own clock in its own unit (BMv2: microseconds since start)
typedef bit<22> report_seq_t;      // wraps: compare modulo 2^22
typedef bit<16> int_bitmap_t;      // instruction bitmap and RepMdBits; INT's bit 0 is the highest
typedef bit<24> psn_t;
typedef bit<16> length_bytes_t;

const ether_type_t ETHER_TYPE_IPV4 = 0x0800;

const bit<8> IP_PROTOCOL_TCP = 6;
const bit<8> IP_PROTOCOL_UDP = 17;

const l4_port_t UDP_PORT_PTP_EVENT   = 319;
const l4_port_t UDP_PORT_PTP_GENERAL = 320;
const l4_port_t UDP_PORT_ROCEV2      = 4791;

const ecn_t ECN_NOT_ECT = 0;
const ecn_t ECN_CE      = 3;

const bit<4> PTP_VERSION = 2;

const bit<4> INT_SHIM_TYPE_MD    = 1;
const bit<4> INT_MD_VERSION      = 2;
const bit<8> INT_MD_LENGTH_WORDS = 3;   // the INT-MD header itself, as the shim counts it

const bit<4> REPORT_VERSION         = 2;
const bit<4> REPORT_TYPE_INT        = 1;
const bit<4> REPORT_INNER_TYPE_IPV4 = 4;

// INT v2.1 section 5.4: one bit per value; the same bits in a report's RepMdBits.
const int_bitmap_t INT_BIT_NODE_ID             = 0x8000;
const int_bitmap_t INT_BIT_LEVEL1_PORTS        = 0x4000;
const int_bitmap_t INT_BIT_HOP_LATENCY         = 0x2000;
const int_bitmap_t INT_BIT_QUEUE               = 0x1000;
const int_bitmap_t INT_BIT_INGRESS_TSTAMP      = 0x0800;
const int_bitmap_t INT_BIT_EGRESS_TSTAMP       = 0x0400;
const int_bitmap_t INT_BIT_LEVEL2_PORTS        = 0x0200;
const int_bitmap_t INT_BIT_TX_UTILIZATION      = 0x0100;
const int_bitmap_t INT_BIT_BUFFER              = 0x0080;
const int_bitmap_t INT_BITS_RESERVED           = 0x007E;
const int_bitmap_t INT_BIT_CHECKSUM_COMPLEMENT = 0x0001;

// What this program can put into a report's own metadata; other bits are cleared (Telemetry Report v2.0).
const int_bitmap_t REPORT_BITS_SUPPORTED = 0x7C00;

#endif
