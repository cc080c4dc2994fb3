// SPDX-License-Identifier: Apache-2.0
// TempoTrace on TNA (Tofino 1 and 2): the contract of ../v1model/tempotrace.p4, for hardware. Order of things only;
// each block has its own file. On Tofino 1 what follows a conditional block starts in a stage behind all of it, so
// blocks are flat: a condition has one table, and sums are made for every packet. docs/tofino.md says what differs and
// what the compiler made of it.

#include "../include/types.p4"
#include "../include/ids.p4"
#include "target.p4"
#include "table_sizes.p4"
#include "headers.p4"
#include "metadata.p4"

// ingress
#include "ingress_parser.p4"
#include "ip_check.p4"
#include "edge.p4"
#include "punt.p4"
#include "qos.p4"
#include "lengths.p4"
#include "flow_hash.p4"
#include "filter_config.p4"
#include "interval.p4"
#include "destination.p4"
#include "probe.p4"
#include "way.p4"
#include "routing.p4"
#include "tag.p4"
#include "l2_ptp.p4"
#include "sink_ports.p4"
#include "watchlist.p4"
#include "int_role.p4"
#include "transparent_clock.p4"
#include "drop_report.p4"
#include "ingress_report.p4"
#include "ingress.p4"

// egress
#include "egress_parser.p4"
#include "node.p4"
#include "ecn.p4"
#include "interfaces.p4"
#include "transmit_correction.p4"
#include "hop_words.p4"
#include "hop_values.p4"
#include "int_push.p4"
#include "new_lengths.p4"
#include "flow_filter.p4"
#include "queue_report.p4"
#include "postcard.p4"
#include "report.p4"
#include "egress.p4"

Pipeline(TempoIngressParser(), TempoIngress(), TempoIngressDeparser(),
         TempoEgressParser(), TempoEgress(), TempoEgressDeparser()) pipe;

@pkginfo(name = "tempotrace", version = "0.2.0")
Switch(pipe) main;
