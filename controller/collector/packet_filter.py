# SPDX-License-Identifier: Apache-2.0
"""Classic BPF on sockets: what a ring shall get, and sockets that shall get nothing."""

import ctypes
import socket
import struct
from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple

_SO_ATTACH_FILTER = 26
_LOAD_BYTE, _LOAD_WORD, _LOAD_HALF, _LOAD_HALF_AT_X = 0x30, 0x20, 0x28, 0x48
_HEADER_LENGTH_TO_X, _JUMP_EQUAL, _RETURN = 0xB1, 0x15, 0x06
_WHOLE_PACKET = 0xFFFF


class Instruction(NamedTuple):
    """struct sock_filter."""

    code: int
    if_true: int
    if_false: int
    value: int


def attach_program(sock: socket.socket, option: int, program: Sequence[Instruction]) -> None:
    """Hand a program to the kernel (struct sock_fprog)."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    argument = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, option, argument)


def drop_all(sock: socket.socket) -> None:
    """The socket keeps its port and gets nothing."""
    attach_program(sock, _SO_ATTACH_FILTER, [Instruction(_RETURN, 0, 0, 0)])


def report_filter(sock: socket.socket, family: int, address: tuple[str, int]) -> None:
    """Only UDP to the address and port; offsets count from the IP header."""
    attach_program(sock, _SO_ATTACH_FILTER, report_program(family, address))


def report_program(family: int, address: tuple[str, int]) -> list[Instruction]:
    """Accepts UDP to an address (all zeros: any) and port, as far as packets show their ports:
    of IPv4 fragments the first, of IPv6 packets those without extension headers."""
    packed = ip_address(address[0].partition("%")[0]).packed
    is_ipv6 = family == socket.AF_INET6
    checks: list[tuple[list[Instruction], int]] = [
        ([Instruction(_LOAD_BYTE, 0, 0, 6 if is_ipv6 else 9)], socket.IPPROTO_UDP)
    ]
    if any(packed):
        first = 24 if is_ipv6 else 16
        checks += [
            (
                [Instruction(_LOAD_WORD, 0, 0, first + at)],
                int.from_bytes(packed[at : at + 4], "big"),
            )
            for at in range(0, len(packed), 4)
        ]
    if is_ipv6:
        port = [Instruction(_LOAD_HALF, 0, 0, 42)]
    else:
        port = [Instruction(_HEADER_LENGTH_TO_X, 0, 0, 0), Instruction(_LOAD_HALF_AT_X, 0, 0, 2)]
    checks.append((port, address[1]))
    length = sum(len(load) + 1 for load, _value in checks)
    program: list[Instruction] = []
    for load, value in checks:
        program += load
        # on to the next check, or to the refusal behind the acceptance
        program.append(Instruction(_JUMP_EQUAL, 0, length - len(program), value))
    return [
        *program,
        Instruction(_RETURN, 0, 0, _WHOLE_PACKET),
        Instruction(_RETURN, 0, 0, 0),
    ]
