# SPDX-License-Identifier: Apache-2.0
"""Which worker gets a report: chosen in the kernel by the report's UDP source port.

Sockets that share a port (SO_REUSEPORT) are chosen by a hash over both addresses, too, so reports
of one packet from several switches would go to several workers. Switches put a hash of the flow,
the same on all of them, into the source port: by that alone all reports of a flow meet in one
worker, and joining them needs no exchange between workers.
"""

import socket

from controller.collector.packet_filter import Instruction, attach_program

_SO_ATTACH_REUSEPORT_CBPF = 51
_NETWORK_HEADER = 0xFFF00000
"""SKF_NET_OFF: offsets from here count from the IP header (linux/filter.h)."""
_SPREAD = 0x9E3779B1
"""2^32 over the golden ratio: neighbouring ports go to different workers, and so do ports that
differ in high bits only."""


# opcodes of classic BPF (linux/bpf_common.h): class | size or operation | mode or source
_LOAD_BYTE, _LOAD_HALF, _LOAD_HALF_AT_X = 0x30, 0x28, 0x48
_AND, _SHIFT_LEFT, _SHIFT_RIGHT, _MULTIPLY, _MODULO = 0x54, 0x64, 0x74, 0x24, 0x94
_TO_X, _JUMP, _JUMP_EQUAL, _RETURN_VALUE, _RETURN_A = 0x07, 0x05, 0x15, 0x06, 0x16


def source_port_program(workers: int) -> list[Instruction]:
    """A program that gives the number of the socket for a datagram, 0 to workers - 1.

    An IPv6 packet with extension headers goes to the first: its ports are not where they are else.
    """
    return [
        Instruction(_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        Instruction(_SHIFT_RIGHT, 0, 0, 4),
        Instruction(_JUMP_EQUAL, 6, 0, 6),  # IPv6
        Instruction(_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        Instruction(_AND, 0, 0, 0x0F),
        Instruction(_SHIFT_LEFT, 0, 0, 2),
        Instruction(_TO_X, 0, 0, 0),
        Instruction(_LOAD_HALF_AT_X, 0, 0, _NETWORK_HEADER),
        Instruction(_JUMP, 0, 0, 4),
        Instruction(_LOAD_BYTE, 0, 0, _NETWORK_HEADER + 6),
        Instruction(_JUMP_EQUAL, 1, 0, socket.IPPROTO_UDP),
        Instruction(_RETURN_VALUE, 0, 0, 0),
        Instruction(_LOAD_HALF, 0, 0, _NETWORK_HEADER + 40),
        Instruction(_MULTIPLY, 0, 0, _SPREAD),
        Instruction(_SHIFT_RIGHT, 0, 0, 16),
        Instruction(_MODULO, 0, 0, workers),
        Instruction(_RETURN_A, 0, 0, 0),
    ]


def worker_of(source_port: int, workers: int) -> int:
    """What the program gives for a source port."""
    return ((source_port * _SPREAD & 0xFFFFFFFF) >> 16) % workers


def steer_by_source_port(sock: socket.socket, workers: int) -> None:
    """Install the program for all sockets of a port; they are numbered in the order of binding."""
    attach_program(sock, _SO_ATTACH_REUSEPORT_CBPF, source_port_program(workers))
