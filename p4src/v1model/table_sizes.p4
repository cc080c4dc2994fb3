// SPDX-License-Identifier: Apache-2.0
// One size per table: what a fabric of 64-port switches needs. They are a target's own.
#ifndef TEMPOTRACE_TABLE_SIZES_P4
#define TEMPOTRACE_TABLE_SIZES_P4

#define EDGE_PORTS_SIZE          512
#define MARKED_DSCP_SIZE         64
#define QOS_CLASS_SIZE           64
#define PUNT_SIZE                64
#define IPV4_LPM_SIZE            16384
#define IPV6_LPM_SIZE            8192
#define ECMP_SELECTOR_SIZE       16384   // buckets of all groups together
#define ECMP_GROUP_SIZE_MAX      64      // buckets of a group
#define ECMP_HASH_WIDTH          32
#define L2_PTP_SIZE              256
#define INT_WATCHLIST_SIZE       4096
#define INT_WATCHLIST_IPV6_SIZE  2048
#define INT_SINK_PORTS_SIZE      512
#define INT_EGRESS_MTU_SIZE      512
#define INTERFACE_SIZE           512
#define PTP_WATCHLIST_SIZE       256
#define PTP_LINK_DELAY_SIZE      512
#define ECN_CONFIG_SIZE          8
#define REPORT_DESTINATION_SIZE  64      // one per bucket of flows
#define QUEUE_REPORT_SIZE        256
#define DROP_REPORT_SIZE         256
#define INGRESS_EVENTS_SIZE      16
#define EGRESS_EVENTS_SIZE       16
#define DROPS_SIZE               256     // one per drop reason
#define FLOW_FILTER_SIZE         16384
#define QUEUE_REPORTS_SIZE       4096    // egress port and queue

#endif
