// SPDX-License-Identifier: Apache-2.0
// TempoTrace on v1model: routing, ECN, INT v2.1 in its three modes, telemetry reports, a PTP transparent clock and
// link probes. Order of things only; each block has its own file. docs/p4.md has the contract with the controller.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "../include/types.p4"
#include "../include/ids.p4"
#include "target.p4"
#include "table_sizes.p4"
#include "headers.p4"
#include "metadata.p4"

#include "parser.p4"
#include "checksums.p4"

// ingress
#include "ip_check.p4"
#include "edge.p4"
#include "punt.p4"
#include "qos.p4"
#include "flow_hash.p4"
#include "filter_config.p4"
#include "destination.p4"
#include "probe.p4"
#include "routing.p4"
#include "l2_ptp.p4"
#include "watchlist.p4"
#include "sink.p4"
#include "drop_report.p4"
#include "ingress_report.p4"
#include "int_ingress.p4"
#include "ingress.p4"

// egress
#include "node.p4"
#include "ecn.p4"
#include "interfaces.p4"
#include "transparent_clock.p4"
#include "int_push.p4"
#include "flow_filter.p4"
#include "queue_report.p4"
#include "postcard.p4"
#include "report.p4"
#include "int_egress.p4"
#include "egress.p4"

@pkginfo(name = "tempotrace", version = "0.2.0")
V1Switch(TempoParser(),
         TempoVerifyChecksum(),
         TempoIngress(),
         TempoEgress(),
         TempoComputeChecksum(),
         TempoDeparser()) main;
