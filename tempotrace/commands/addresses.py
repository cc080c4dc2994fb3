# SPDX-License-Identifier: Apache-2.0
"""HOST:PORT on the command line."""

from tempotrace.errors import InputError


def host_and_port(option: str, text: str) -> tuple[str, int]:
    """Both parts; an IPv6 address stands in brackets.

    >>> host_and_port("--listen", "[::1]:32766")
    ('::1', 32766)
    """
    host, separator, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    bare = host.removeprefix("[").removesuffix("]")
    if not separator or not is_number or not bare or (":" in bare and bare == host):
        raise InputError(f"{option} {text!r} is not HOST:PORT")
    return bare, int(port)
