// SPDX-License-Identifier: Apache-2.0
// What is Tofino 2's own. Port numbers are device ports; each can be set on the compiler's command line.
#ifndef TEMPOTRACE_TOFINO2_P4
#define TEMPOTRACE_TOFINO2_P4

#include <t2na.p4>

#ifndef CPU_PORT
#define CPU_PORT 0                     // PCIe port
#endif

// Port 6 of each pipe: recirculated packets and the packet generator. Bits 8 and 7 are the pipe.
const port_t INTERNAL_PORT      = 6;
const port_t INTERNAL_PORT_MASK = 0x07F;

// A MAC told to correct a PTP message leaves the UDP checksum alone if its offset lies behind the packet.
const bit<8> PTP_NO_UDP_CHECKSUM = 255;

// A checksum unit of the deparser looks at four bytes of validity bits at most. One more has those of a hop's values,
// and two have those of IP and UDP; the condition of the update falls into this one.
#define PACK_OTHER_VALIDITY_BITS \
    @pa_byte_pack("egress", "hdr.hop_buffer.$valid", "hdr.hop_checksum_complement.$valid", \
                  "hdr.report_drop.$valid", "hdr.int_shim.$valid", 4)

// Mirrored at egress is the packet as it leaves: the compiler sets mirror_io_select.

// deq_timedelta has 32 bits here. It is not used, so that both generations say the same.

#endif
