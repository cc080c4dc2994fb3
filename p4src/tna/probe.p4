// SPDX-License-Identifier: Apache-2.0
// Link probes: u sends one out of a port, its neighbour v bounces it, u takes it back. Postcards stamp u's
// egress and v; u's ingress is in the report that ends the probe. Both ways have the same length and queue.
// u's probes come from the controller, or from the packet generator: then one packet becomes a probe per port
// of a multicast group, and egress writes the port into it.

control ProbeCheck(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    Hash<bit<32>>(HashAlgorithm_t.CRC32) probe_hash;

    @id(ACTION_SET_PROBE_CONFIG)
    action set_probe_config(@id(1) int_bitmap_t report_metadata_bits) {
        meta.probe_enabled = 1;
        meta.probe_bits = report_metadata_bits;
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
        meta.is_probe = 1;
        hdr.bridged.flow_hash = probe_hash.get({ hdr.probe.node_id, hdr.probe.egress_port });
    }

    apply {
        probe_config.apply();
        // Nobody but a neighbour can send TTL 255 (RFC 5082): anything else on this port is routed traffic, and a
        // host's packet is the host's own business.
        if (meta.probe_enabled == 1 && hdr.probe.isValid() && meta.edge_port == 0 && hdr.ipv4.isValid()
            && hdr.ipv4.ttl == 255) {
            hash_probe();
        }
    }
}

control Probe(inout ingress_headers_t hdr,
              inout ingress_metadata_t meta,
              in ingress_intrinsic_metadata_t ig_intr_md) {

    mac_addr_t mac;
    ipv4_addr_t address;

    @hidden
    action bounce() {
        mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        address = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = address;
        hdr.probe.returning = 1;
        hdr.bridged.egress_port = ig_intr_md.ingress_port;
        hdr.bridged.bitmap = meta.probe_bits & REPORT_BITS_SUPPORTED;
        hdr.bridged.postcard = 1;
        meta.event = EVENT_PROBE_BOUNCED;
    }

    @hidden
    action send() {
        hdr.bridged.bitmap = meta.probe_bits & REPORT_BITS_FROM_CPU;
        hdr.bridged.postcard = 1;
    }

    @hidden
    action end() {
        meta.probe_ended = 1;
        meta.stack_report = 1;
        meta.event = EVENT_PROBE_ENDED;
    }

    @hidden
    action invalid() {
        meta.drop_reason = DROP_PROBE_INVALID;
    }

    // A checksum would not survive.
    @hidden
    table probe_step {
        key = {
            hdr.udp_tail.checksum: ternary;
            hdr.probe.version: ternary;
            meta.direct: ternary;
            hdr.probe.returning: ternary;
        }
        actions = { send; bounce; end; invalid; }
        const default_action = invalid();
        const entries = {
            (0, 1, 1, _): send();
            (0, 1, 0, 0): bounce();
            (0, 1, 0, 1): end();
        }
    }

    apply {
        probe_step.apply();
    }
}
