// SPDX-License-Identifier: Apache-2.0
// P4Runtime ids. They are a contract with every deployed controller: never reused, never renumbered.
// The highest byte is the object type that P4Runtime prescribes.
#ifndef TEMPOTRACE_IDS_P4
#define TEMPOTRACE_IDS_P4

// ---- tables: 0x02 ----
#define TABLE_INT_EDGE_PORTS      0x02000001
#define TABLE_INT_MARKED_DSCP     0x02000002
#define TABLE_QOS_CLASS           0x02000003
#define TABLE_PUNT                0x02000004
#define TABLE_IPV4_LPM            0x02000005
#define TABLE_INT_WATCHLIST       0x02000006
#define TABLE_INT_SINK_PORTS      0x02000007
#define TABLE_INT_NODE            0x02000008
#define TABLE_REPORT_CONFIG       0x02000009
#define TABLE_INT_EGRESS_MTU      0x0200000A
#define TABLE_PTP_WATCHLIST       0x0200000B
#define TABLE_ECN_CONFIG          0x0200000C

// ---- actions: 0x01 ----
#define ACTION_SET_INT_SOURCE_EDGE 0x01000001
#define ACTION_SET_MARKED          0x01000002
#define ACTION_SET_QUEUE           0x01000003
#define ACTION_PUNT_TO_CPU         0x01000004
#define ACTION_FORWARD             0x01000005
#define ACTION_DROP                0x01000006
#define ACTION_INT_SOURCE          0x01000007
#define ACTION_INT_EXEMPT          0x01000008
#define ACTION_SET_INT_SINK        0x01000009
#define ACTION_SET_INT_STRIP       0x0100000A
#define ACTION_SET_INT_NODE        0x0100000B
#define ACTION_SET_REPORT_CONFIG   0x0100000C
#define ACTION_SET_MTU             0x0100000D
#define ACTION_PTP_POSTCARD        0x0100000E
#define ACTION_SET_ECN_THRESHOLD   0x0100000F

// ---- action profiles and selectors: 0x11 ----
#define SELECTOR_ECMP              0x11000001

// ---- counters: 0x12 ----
#define COUNTER_INGRESS_EVENTS     0x12000001

// ---- direct counters: 0x13, low byte as the table's ----
#define DIRECT_COUNTER_INT_EDGE_PORTS  0x13000001
#define DIRECT_COUNTER_INT_MARKED_DSCP 0x13000002
#define DIRECT_COUNTER_QOS_CLASS       0x13000003
#define DIRECT_COUNTER_PUNT            0x13000004
#define DIRECT_COUNTER_IPV4_LPM        0x13000005
#define DIRECT_COUNTER_INT_WATCHLIST   0x13000006
#define DIRECT_COUNTER_INT_SINK_PORTS  0x13000007
#define DIRECT_COUNTER_INT_EGRESS_MTU  0x1300000A
#define DIRECT_COUNTER_PTP_WATCHLIST   0x1300000B
#define DIRECT_COUNTER_ECN_CONFIG      0x1300000C

// ---- registers: 0x16 (data plane only, never accessed over P4Runtime) ----
#define REGISTER_INGRESS_REPORT_SEQ 0x16000001
#define REGISTER_EGRESS_REPORT_SEQ  0x16000002

// ---- ports and clone sessions that the control plane must know ----
#define CPU_PORT               510
#define INGRESS_CLONE_SESSION  1
#define EGRESS_CLONE_SESSION   2

// ---- field list that clone_preserving_field_list carries into the clone ----
#define FIELD_LIST_REPORT      1

// ---- hardware ids in reports: one per register, since gresses share none (pipe 0) ----
#define HW_ID_INGRESS          0
#define HW_ID_EGRESS           1

// ---- indices of the counter ingress_events ----
#define EVENT_IPV4_MALFORMED     0   // dropped: version, header length or total length is impossible
#define EVENT_IPV4_BAD_CHECKSUM  1   // dropped
#define EVENT_TTL_EXPIRED        2   // dropped
#define EVENT_NO_ROUTE           3   // dropped
#define EVENT_NOT_IPV4           4   // dropped: neither IPv4 nor punted
#define EVENT_DSCP_CLEANED       5   // forwarded: a host sent a marked DSCP
#define EVENT_INT_UNSUPPORTED    6   // marked, but INT type, version or lengths are not readable
#define EVENT_INT_NOT_STRIPPABLE 7   // dropped at the sink: unreadable INT must not reach a host
#define EVENT_PTP_VERSION        8   // forwarded without a postcard: not PTP version 2
#define EVENT_INT_NOT_STARTED    9   // watchlist hit, forwarded without INT (fragment or no UDP)

#endif
