// SPDX-License-Identifier: Apache-2.0
// TempoTrace on v1model: routing, ECN, INT-MD v2.1 source/transit/sink and PTP postcards. Order of things only;
// each block has its own file. docs/p4.md has the contract with the controller.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "../include/types.p4"
#include "../include/ids.p4"
#include "../include/table_sizes.p4"
#include "../include/headers.p4"
#include "../include/metadata.p4"

// BMv2: values of standard_metadata.instance_type.
const bit<32> INSTANCE_TYPE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_TYPE_EGRESS_CLONE  = 2;

#include "parser.p4"
#include "checksums.p4"
#include "edge.p4"
#include "qos.p4"
#include "punt.p4"
#include "routing.p4"
#include "int_watchlist.p4"
#include "int_sink.p4"
#include "ecn.p4"
#include "node.p4"
#include "int_push.p4"
#include "postcard.p4"
#include "report.p4"
#include "ingress.p4"
#include "egress.p4"

@pkginfo(name = "tempotrace", version = "0.1.0")
V1Switch(TempoParser(),
         TempoVerifyChecksum(),
         TempoIngress(),
         TempoEgress(),
         TempoComputeChecksum(),
         TempoDeparser()) main;
