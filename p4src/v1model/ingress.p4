// SPDX-License-Identifier: Apache-2.0
// Ingress: where a packet comes from, what it is, where it goes, and what the sink takes out of it.

control TempoIngress(inout headers_t hdr,
                     inout local_metadata_t meta,
                     inout standard_metadata_t standard_metadata) {

    Edge() edge;
    Qos() qos;
    Punt() punting;
    Routing() routing;
    IntWatchlist() watchlist;
    IntSinkPorts() sink_ports;
    IntSink() sink;

    bit<1> dscp_is_odd = 0;
    bit<1> routed = 0;
    bit<1> dropped = 0;
    ipv4_addr_t punt_dst_addr = 0;
    bit<8> punt_protocol = 0;

    // Why packets were dropped or not traced; the indices are in ids.p4.
    @id(COUNTER_INGRESS_EVENTS)
    counter<bit<32>>(PACKET_EVENTS_SIZE, CounterType.packets) ingress_events;

    @hidden
    action drop_and_count(in bit<32> event) {
        mark_to_drop(standard_metadata);
        ingress_events.count(event);
        dropped = 1;
    }

    apply {
        if (hdr.packet_out.isValid() && hdr.packet_out.submit_to_ingress == 0) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            hdr.packet_out.setInvalid();

            if (hdr.ipv4.isValid()) {
                if (meta.ipv4_malformed == 1
                    || (bit<32>)hdr.ipv4.total_length + 14 > standard_metadata.packet_length
                    || hdr.ipv4.total_length < (length_bytes_t)hdr.ipv4.ihl << 2) {
                    drop_and_count(EVENT_IPV4_MALFORMED);
                } else if (standard_metadata.checksum_error == 1) {
                    drop_and_count(EVENT_IPV4_BAD_CHECKSUM);
                } else {
                    dscp_is_odd = hdr.ipv4.dscp[0:0];
                    punt_dst_addr = hdr.ipv4.dst_addr;
                    punt_protocol = hdr.ipv4.protocol;
                }
            }

            if (dropped == 0) {
                edge.apply(hdr, meta, standard_metadata, dscp_is_odd);
                if (meta.int_marked == 1 && meta.edge_port == 1) {
                    // Whatever follows UDP is the host's own bytes and is passed on as it is.
                    hdr.ipv4.dscp = meta.dscp_unmarked;
                    meta.int_marked = 0;
                    ingress_events.count(EVENT_DSCP_CLEANED);
                }
                punting.apply(hdr, meta, standard_metadata, punt_dst_addr, punt_protocol);
                if (meta.punted == 0) {
                    if (!hdr.ipv4.isValid()) {
                        drop_and_count(EVENT_NOT_IPV4);
                    } else if (hdr.ipv4.ttl <= 1) {
                        drop_and_count(EVENT_TTL_EXPIRED);
                    } else {
                        qos.apply(hdr, meta, standard_metadata);
                        routing.apply(hdr, meta, standard_metadata, routed);
                        if (routed == 0) {
                            ingress_events.count(EVENT_NO_ROUTE);
                        }
                    }
                }
            }

            if (routed == 1) {
                sink_ports.apply(meta, standard_metadata);

                if (meta.edge_port == 1) {
                    watchlist.apply(hdr, meta);
                    if (meta.int_source == 1) {
                        // A shim that came from the host occupies the place of ours; a fragment has no UDP.
                        if (!hdr.udp.isValid() || hdr.int_shim.isValid()
                            || (bit<32>)hdr.udp.length + ((bit<32>)hdr.ipv4.ihl << 2)
                               != (bit<32>)hdr.ipv4.total_length) {
                            meta.int_source = 0;
                            ingress_events.count(EVENT_INT_NOT_STARTED);
                        } else if (meta.sink_port == 1) {
                            // Source and sink in one: there is no fabric link to carry a stack over.
                            meta.int_source = 0;
                            meta.sink_postcard = meta.sink_reports;
                            meta.postcard_bits = (meta.source_bitmap & REPORT_BITS_SUPPORTED)
                                                 | INT_BIT_INGRESS_TSTAMP;
                        }
                    }
                }

                if (meta.int_marked == 1) {
                    // Lengths that contradict each other would wrap when INT is added or removed.
                    if (meta.int_parsed == 1
                        && ((((length_bytes_t)hdr.int_shim.length_words + 1) << 2) + 8 > hdr.udp.length
                            || (bit<32>)hdr.udp.length + ((bit<32>)hdr.ipv4.ihl << 2)
                               > (bit<32>)hdr.ipv4.total_length)) {
                        meta.int_parsed = 0;
                    }
                    if (meta.int_parsed == 0) {
                        ingress_events.count(EVENT_INT_UNSUPPORTED);
                    }
                    if (meta.sink_port == 1) {
                        if (!hdr.udp.isValid()) {
                            hdr.ipv4.dscp = meta.dscp_unmarked;   // no UDP, no INT: only the mark
                        } else if (meta.int_parsed == 0) {
                            drop_and_count(EVENT_INT_NOT_STRIPPABLE);
                        } else {
                            sink.apply(hdr, meta, standard_metadata);
                        }
                    } else if (meta.int_parsed == 1) {
                        meta.int_transit = 1;
                    }
                }

                if (hdr.ptp.isValid() && hdr.ptp.version_ptp != PTP_VERSION) {
                    ingress_events.count(EVENT_PTP_VERSION);
                }
            }
        }
    }
}
