// SPDX-License-Identifier: Apache-2.0
// Widths of everything that has a width. A bare bit<N> elsewhere is padding.
#ifndef TEMPOTRACE_TYPES_P4
#define TEMPOTRACE_TYPES_P4

typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<128> ipv6_addr_t;
typedef bit<12> vlan_id_t;
typedef bit<16> ether_type_t;
typedef bit<6>  dscp_t;
typedef bit<2>  ecn_t;
typedef bit<16> l4_port_t;
typedef bit<9>  port_t;            // front panel, CPU, recirculation and drop port: ids.p4 has the numbers
typedef bit<32> node_id_t;         // INT's name for the reporting device
typedef bit<8>  queue_id_t;        // as INT carries it; v1model priorities are 0..7
typedef bit<24> queue_depth_t;     // as INT carries it; v1model supplies 19 bits
typedef bit<48> tstamp_t;          // the node's own clock in its own unit (BMv2: microseconds since start)
typedef bit<64> scaled_ns_t;       // 2^-16 ns, two's complement, as a PTP correctionField
typedef bit<22> report_seq_t;      // wraps: compare modulo 2^22
typedef bit<16> int_bitmap_t;      // instruction bitmap and RepMdBits; INT's bit 0 is the highest
typedef bit<24> psn_t;
typedef bit<16> length_bytes_t;
typedef bit<32> flow_hash_t;       // of the 5-tuple, the same on every switch
typedef bit<8>  drop_reason_t;     // DROP_* in ids.p4
typedef bit<32> interface_t;       // level 2 interface of INT; all ones: not known

const ether_type_t ETHER_TYPE_IPV4 = 0x0800;
const ether_type_t ETHER_TYPE_IPV6 = 0x86DD;
const ether_type_t ETHER_TYPE_VLAN = 0x8100;
const ether_type_t ETHER_TYPE_PTP  = 0x88F7;   // IEEE 1588-2019 annex E

const bit<8> IP_PROTOCOL_TCP    = 6;
const bit<8> IP_PROTOCOL_UDP    = 17;
const bit<8> IP_PROTOCOL_ICMPV6 = 58;

const l4_port_t UDP_PORT_PTP_EVENT   = 319;
const l4_port_t UDP_PORT_PTP_GENERAL = 320;
const l4_port_t UDP_PORT_ROCEV2      = 4791;
const l4_port_t UDP_PORT_PROBE       = 32767;  // link probes; to a host's packet the port means nothing

// RoCEv2 opcodes with an extended transport header that is parsed (InfiniBand volume 1, chapter 9).
const bit<8> ROCE_RC_RDMA_WRITE_FIRST          = 0x06;
const bit<8> ROCE_RC_RDMA_WRITE_ONLY           = 0x0A;
const bit<8> ROCE_RC_RDMA_WRITE_ONLY_IMMEDIATE = 0x0B;
const bit<8> ROCE_RC_RDMA_READ_REQUEST         = 0x0C;
const bit<8> ROCE_RC_RDMA_READ_RESPONSE_FIRST  = 0x0D;
const bit<8> ROCE_RC_RDMA_READ_RESPONSE_LAST   = 0x0F;
const bit<8> ROCE_RC_RDMA_READ_RESPONSE_ONLY   = 0x10;
const bit<8> ROCE_RC_ACKNOWLEDGE               = 0x11;
const bit<8> ROCE_RC_ATOMIC_ACKNOWLEDGE        = 0x12;
const bit<8> ROCE_CNP                          = 0x81;

const ecn_t ECN_NOT_ECT = 0;
const ecn_t ECN_CE      = 3;

const bit<4> PTP_VERSION = 2;
const scaled_ns_t PTP_CORRECTION_TOO_BIG = 0x7FFFFFFFFFFFFFFF;   // IEEE 1588-2019 section 13.3.2.9: stays

const bit<4> INT_SHIM_TYPE_MD    = 1;
const bit<4> INT_SHIM_TYPE_MX    = 3;
const bit<4> INT_VERSION         = 2;
const bit<8> INT_HEADER_WORDS    = 3;   // the INT-MD or INT-MX header itself, as the shim counts it

const bit<4> REPORT_VERSION             = 2;
const bit<4> REPORT_TYPE_INT            = 1;
const bit<4> REPORT_INNER_TYPE_ETHERNET = 3;
const bit<4> REPORT_INNER_TYPE_IPV4     = 4;
const bit<4> REPORT_INNER_TYPE_IPV6     = 5;

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

// In a report's RepMdBits the last bit is queue id and drop reason (Telemetry Report v2.0 section 3.3).
const int_bitmap_t REPORT_BIT_DROP = 0x0001;

#endif
