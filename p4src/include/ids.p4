// SPDX-License-Identifier: Apache-2.0
// P4Runtime ids. They are a contract with every deployed controller: never reused, never renumbered.
// The highest byte is the object type that P4Runtime prescribes. A retired id stays in its comment.
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
#define TABLE_IPV6_LPM            0x0200000D
#define TABLE_ECMP_CONFIG         0x0200000E
#define TABLE_L2_PTP              0x0200000F
#define TABLE_INT_WATCHLIST_IPV6  0x02000010
#define TABLE_REPORT_DESTINATION  0x02000011
#define TABLE_REPORT_FILTER       0x02000012
#define TABLE_QUEUE_REPORT        0x02000013
#define TABLE_DROP_REPORT         0x02000014
#define TABLE_TRANSPARENT_CLOCK   0x02000015
#define TABLE_PTP_LINK_DELAY      0x02000016
#define TABLE_PROBE_CONFIG        0x02000017
#define TABLE_INGRESS_INTERFACE   0x02000018
#define TABLE_EGRESS_INTERFACE    0x02000019

// ---- actions: 0x01; retired: 0x0100000C ----
#define ACTION_SET_INT_SOURCE_EDGE    0x01000001
#define ACTION_SET_MARKED             0x01000002
#define ACTION_SET_QUEUE              0x01000003
#define ACTION_PUNT_TO_CPU            0x01000004
#define ACTION_FORWARD                0x01000005
#define ACTION_DROP                   0x01000006
#define ACTION_INT_SOURCE             0x01000007
#define ACTION_INT_EXEMPT             0x01000008
#define ACTION_SET_INT_SINK           0x01000009
#define ACTION_SET_INT_STRIP          0x0100000A
#define ACTION_SET_INT_NODE           0x0100000B
#define ACTION_SET_MTU                0x0100000D
#define ACTION_PTP_POSTCARD           0x0100000E
#define ACTION_SET_ECN_THRESHOLD      0x0100000F
#define ACTION_FORWARD_VLAN           0x01000010
#define ACTION_SET_ECMP_CONFIG        0x01000011
#define ACTION_FORWARD_L2             0x01000012
#define ACTION_MULTICAST_L2           0x01000013
#define ACTION_INT_SOURCE_MX          0x01000014
#define ACTION_INT_POSTCARD           0x01000015
#define ACTION_SET_REPORT_CONFIG      0x01000016
#define ACTION_SET_REPORT_DESTINATION 0x01000017
#define ACTION_SET_REPORT_FILTER      0x01000018
#define ACTION_SET_QUEUE_REPORT       0x01000019
#define ACTION_REPORT_DROP            0x0100001A
#define ACTION_SET_TRANSPARENT_CLOCK  0x0100001B
#define ACTION_SET_LINK_DELAY         0x0100001C
#define ACTION_SET_PROBE_CONFIG       0x0100001D
#define ACTION_SET_INGRESS_INTERFACE  0x0100001E
#define ACTION_SET_EGRESS_INTERFACE   0x0100001F
#define ACTION_PUNT_L2                0x01000020
#define ACTION_DROP_L2                0x01000021

// ---- action profiles and selectors: 0x11 ----
#define SELECTOR_ECMP              0x11000001

// ---- counters: 0x12 ----
#define COUNTER_INGRESS_EVENTS     0x12000001
#define COUNTER_DROPS              0x12000002
#define COUNTER_EGRESS_EVENTS      0x12000003

// ---- direct counters: 0x13, low byte as the table's ----
#define DIRECT_COUNTER_INT_EDGE_PORTS     0x13000001
#define DIRECT_COUNTER_INT_MARKED_DSCP    0x13000002
#define DIRECT_COUNTER_QOS_CLASS          0x13000003
#define DIRECT_COUNTER_PUNT               0x13000004
#define DIRECT_COUNTER_IPV4_LPM           0x13000005
#define DIRECT_COUNTER_INT_WATCHLIST      0x13000006
#define DIRECT_COUNTER_INT_SINK_PORTS     0x13000007
#define DIRECT_COUNTER_INT_EGRESS_MTU     0x1300000A
#define DIRECT_COUNTER_PTP_WATCHLIST      0x1300000B
#define DIRECT_COUNTER_ECN_CONFIG         0x1300000C
#define DIRECT_COUNTER_IPV6_LPM           0x1300000D
#define DIRECT_COUNTER_L2_PTP             0x1300000F
#define DIRECT_COUNTER_INT_WATCHLIST_IPV6 0x13000010
#define DIRECT_COUNTER_QUEUE_REPORT       0x13000013
#define DIRECT_COUNTER_DROP_REPORT        0x13000014

// ---- registers: 0x16 (data plane only, never accessed over P4Runtime) ----
#define REGISTER_INGRESS_REPORT_SEQ    0x16000001
#define REGISTER_EGRESS_REPORT_SEQ     0x16000002
#define REGISTER_FLOW_FILTER_A         0x16000003
#define REGISTER_FLOW_FILTER_B         0x16000004
#define REGISTER_DROP_FILTER_A         0x16000005
#define REGISTER_DROP_FILTER_B         0x16000006
#define REGISTER_QUEUE_REPORTS         0x16000007

// ---- clone (mirror) sessions that the control plane must know ----
#define INGRESS_CLONE_SESSION  1
#define EGRESS_CLONE_SESSION   2

// ---- hardware ids in reports: one per register, since gresses share none (pipe 0) ----
#define HW_ID_INGRESS          0
#define HW_ID_EGRESS           1

// ---- indices of the counter ingress_events; retired: 0 to 4 and 7 (now in the counter drops) ----
#define EVENT_DSCP_CLEANED       5   // forwarded: a host sent a marked DSCP
#define EVENT_INT_UNSUPPORTED    6   // marked, but INT type, version or lengths are not readable
#define EVENT_PTP_VERSION        8   // forwarded as it is: not PTP version 2
#define EVENT_INT_NOT_STARTED    9   // watchlist hit, forwarded without INT (fragment or no UDP)
#define EVENT_DROP_FILTERED     10   // a drop that was reported already in this interval
#define EVENT_PROBE_BOUNCED     11   // sent back to the switch that it came from
#define EVENT_PROBE_ENDED       12   // came back, reported, and dropped

// ---- indices of the counter egress_events ----
#define EVENT_INT_HOP_LIMIT      0   // forwarded without an entry: remaining hop count 0 (E set)
#define EVENT_INT_MTU            1   // forwarded without an entry: MTU or 252 words reached (M set)
#define EVENT_INT_UNKNOWN        2   // forwarded without an entry: reserved bits or an unknown domain
#define EVENT_INT_NO_ROOM        3   // source: the headers alone exceed the MTU, INT not started
#define EVENT_REPORT_FILTERED    4   // a postcard that says nothing new in this interval
#define EVENT_QUEUE_QUOTA        5   // a congested packet beyond the quota of its episode
#define EVENT_PTP_CORRECTED      6   // residence (and link delay) added to a correctionField
#define EVENT_PTP_TOO_BIG        7   // correctionField is at its limit and was left alone
#define EVENT_REPORT_UNSENT      8   // a report without node or report configuration

// ---- drop reasons: index of the counter drops, and in drop reports. Below 128 they are those of Intel's
//      switch.p4, which collectors know; from 128 on they are ours ----
#define DROP_IP_VERSION_INVALID       25
#define DROP_TTL_EXPIRED              26
#define DROP_NO_ROUTE                 29
#define DROP_IP_HEADER_LENGTH_INVALID 30
#define DROP_IP_CHECKSUM_INVALID      31
#define DROP_TRAFFIC_MANAGER          71   // Tofino's deflection on drop; BMv2 does not tell
#define DROP_IP_LENGTH_INVALID       128   // IP length disagrees with the frame or the header
#define DROP_UNKNOWN_ETHER_TYPE      129   // neither IP nor PTP, and not punted
#define DROP_INT_NOT_STRIPPABLE      130   // at the sink: unreadable INT must not reach a host
#define DROP_ROUTE_ACTION            131   // the route says drop
#define DROP_L2_PTP_NOT_FORWARDED    132   // PTP over Ethernet without an entry
#define DROP_PROBE_INVALID           133   // a probe of another version, or none is expected here

#endif
