# SPDX-License-Identifier: Apache-2.0
"""Whether a service asks for tokens, as `serve --auth` and the address it listens on say."""

import ipaddress

from tempotrace.errors import InputError
from tracing_core.access import TokenFile, TokenFileError
from tracing_core.service.gate import Auth, Gate

AUTH_CHOICES = (Auth.REQUIRED.value, Auth.OFF.value)


def service_gate(auth: str | None, file: TokenFile | None, host: str) -> Gate:
    """Decides about the requests of a service on `host`; an error if it would be open to others
    without somebody having said so."""
    if auth is not None and auth not in AUTH_CHOICES:
        raise InputError(f"--auth: expected {' or '.join(AUTH_CHOICES)}; found {auth}")
    if auth == Auth.OFF:
        return Gate()
    try:
        exist = file is not None and bool(file.current().tokens)
    except TokenFileError as error:
        raise InputError(str(error)) from None
    if auth == Auth.REQUIRED:
        if file is None:
            raise InputError("serve: --auth required needs --store FOLDER or --tokens FILE")
        return Gate(Auth.REQUIRED, file)
    if not exist and not is_loopback(host):
        raise InputError(
            f"serve: others can reach --host {host}, and there are no tokens: make one with"
            " `tempotrace token create`, or say --auth off"
        )
    return Gate() if file is None else Gate(Auth.WITH_TOKENS, file)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name other than localhost may be any.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
