// SPDX-License-Identifier: Apache-2.0
// One size per table: what a fabric of 64-port switches needs, and far below what any target offers.
#ifndef TEMPOTRACE_TABLE_SIZES_P4
#define TEMPOTRACE_TABLE_SIZES_P4

#define EDGE_PORTS_SIZE          512
#define MARKED_DSCP_SIZE         64
#define QOS_CLASS_SIZE           64
#define PUNT_SIZE                64
#define IPV4_LPM_SIZE            16384
#define ECMP_SELECTOR_SIZE       16384   // members of all groups together
#define ECMP_GROUP_SIZE_MAX      64
#define ECMP_HASH_WIDTH          32
#define INT_WATCHLIST_SIZE       4096
#define INT_SINK_PORTS_SIZE      512
#define INT_EGRESS_MTU_SIZE      512
#define PTP_WATCHLIST_SIZE       256
#define ECN_CONFIG_SIZE          8
#define PACKET_EVENTS_SIZE       16

#endif
