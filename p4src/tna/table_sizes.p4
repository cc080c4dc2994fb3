// SPDX-License-Identifier: Apache-2.0
// One size per table: what fits one pipe of Tofino 1 next to everything else.
#ifndef TEMPOTRACE_TNA_TABLE_SIZES_P4
#define TEMPOTRACE_TNA_TABLE_SIZES_P4

#define EDGE_PORTS_SIZE          512
#define MARKED_DSCP_SIZE         64
#define QOS_CLASS_SIZE           64
#define PUNT_SIZE                64
#define IPV4_LPM_SIZE            4096
#define IPV6_LPM_SIZE            1024
#define ECMP_SELECTOR_SIZE       4096    // members of all groups together
#define ECMP_GROUP_SIZE_MAX      64      // buckets of a group
#define ECMP_GROUPS_SIZE         128
#define L2_PTP_SIZE              256
#define INT_WATCHLIST_SIZE       1024
#define INT_WATCHLIST_IPV6_SIZE  512
#define INT_SINK_PORTS_SIZE      512
#define INT_EGRESS_MTU_SIZE      512
#define INTERFACE_SIZE           512
#define PTP_WATCHLIST_SIZE       256
#define PTP_LINK_DELAY_SIZE      512
#define ECN_CONFIG_SIZE          32      // one per queue of a port
#define REPORT_DESTINATION_SIZE  64      // one per bucket of flows
#define QUEUE_REPORT_SIZE        256
#define DROP_REPORT_SIZE         256
#define INGRESS_EVENTS_SIZE      16
#define EGRESS_EVENTS_SIZE       16
#define DROPS_SIZE               256     // one per drop reason
#define FLOW_FILTER_SIZE         16384
#define QUEUE_REPORTS_SIZE       4096    // egress port and queue

#endif
