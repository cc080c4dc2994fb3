// SPDX-License-Identifier: Apache-2.0
// What is Tofino 1's own. Port numbers are device ports; each can be set on the compiler's command line.
#ifndef TEMPOTRACE_TOFINO1_P4
#define TEMPOTRACE_TOFINO1_P4

#include <tna.p4>

#ifndef CPU_PORT
#define CPU_PORT 192                   // PCIe port of a device with two pipes (320 with four)
#endif

// Port 68 of each pipe: recirculated packets and the packet generator. Bits 8 and 7 are the pipe.
const port_t INTERNAL_PORT      = 68;
const port_t INTERNAL_PORT_MASK = 0x07F;

// A MAC told to correct a PTP message leaves the UDP checksum alone if its offset is this.
const bit<8> PTP_NO_UDP_CHECKSUM = 0;

// A checksum of the deparser takes all its fields, valid or not: those of invalid headers are 0.
#define PACK_OTHER_VALIDITY_BITS \
    @pa_byte_pack("egress", "hdr.hop_buffer.$valid", "hdr.hop_checksum_complement.$valid", \
                  "hdr.report_drop.$valid", 5)

// deq_timedelta has 18 bits here (it wraps after 262,144 ns), so nothing is computed from it: hop latency
// and congestion thresholds use the 48-bit stamps.

#endif
