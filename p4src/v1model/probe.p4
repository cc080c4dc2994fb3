// SPDX-License-Identifier: Apache-2.0
// Link probes: u sends one out of a port, its neighbour v bounces it, u takes it back. Postcards stamp u's
// egress and v; u's ingress is in the report that ends the probe. Both ways have the same length and queue.

control Probe(inout headers_t hdr,
              inout local_metadata_t meta,
              inout standard_metadata_t standard_metadata,
              in bit<1> from_controller,
              out bit<1> is_probe) {

    bit<1> enabled = 0;
    mac_addr_t mac = 0;
    ipv4_addr_t address = 0;
    int_bitmap_t bits = 0;

    @id(ACTION_SET_PROBE_CONFIG)
    action set_probe_config(@id(1) int_bitmap_t report_metadata_bits) {
        enabled = 1;
        bits = report_metadata_bits & REPORT_BITS_SUPPORTED;
    }

    // Filled by the controller (default action): probes are handled, and reported with these bits.
    @id(TABLE_PROBE_CONFIG)
    table probe_config {
        key = { }
        actions = { set_probe_config; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    // Reports of one probe go to one collector, whichever way it is going.
    @hidden
    action hash_probe() {
        hash(meta.flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.probe.node_id, hdr.probe.egress_port }, 64w0x100000000);
    }

    @hidden
    action bounce() {
        mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        address = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = address;
        hdr.probe.returning = 1;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        is_probe = 0;
        // A host's packet to this port is the host's own business.
        if (meta.edge_port == 0) {
            probe_config.apply();
        }
        // Nobody but a neighbour can send TTL 255 (RFC 5082): anything else on this port is routed traffic.
        if (enabled == 1 && hdr.ipv4.isValid() && hdr.ipv4.ttl == 255) {
            is_probe = 1;
            hash_probe();
            if (hdr.udp.checksum != 0 || hdr.probe.version != 1) {   // a checksum would not survive
                meta.drop_reason = DROP_PROBE_INVALID;
            } else if (from_controller == 1) {
                meta.postcard_bits = bits & REPORT_BITS_FROM_CPU;
            } else if (hdr.probe.returning == 0) {
                bounce();
                meta.probe_bounced = 1;
                meta.postcard_bits = bits;
            } else {
                meta.probe_ended = 1;
                meta.received_report = 1;
            }
        }
    }
}
