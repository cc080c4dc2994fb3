# SPDX-License-Identifier: Apache-2.0
"""Decides about the requests of a running service, by the tokens as they are at that moment."""

import time
from collections.abc import Callable
from enum import StrEnum, unique

import structlog

from tracing_core.access import (
    EVERYTHING,
    Identity,
    Need,
    Refusal,
    RefusalKind,
    TokenFile,
    TokenFileError,
    decide,
)

_log = structlog.get_logger(__name__)


@unique
class Auth(StrEnum):
    """Whether tokens are required."""

    REQUIRED = "required"
    OFF = "off"
    WITH_TOKENS = "with tokens"
    """As soon as there is one; from then on until the service ends."""


class Gate:
    """What every transport of a service asks before it does anything; from any thread."""

    def __init__(
        self,
        auth: Auth = Auth.OFF,
        file: TokenFile | None = None,
        *,
        now_unix_s: Callable[[], float] = time.time,
    ) -> None:
        assert file is not None or auth is Auth.OFF
        self._auth = auth
        self._file = file
        self._now_unix_s = now_unix_s
        self._error = ""
        self.refused_count = 0
        """Requests that were refused since the service started."""

    @property
    def is_on(self) -> bool:
        """Whether tokens are required at this moment."""
        if self._auth is Auth.WITH_TOKENS and self._file is not None:
            try:
                if self._file.current().tokens:
                    self._auth = Auth.REQUIRED
            except TokenFileError:
                return True
        return self._auth is Auth.REQUIRED

    def decide(self, authorization: str, need: Need) -> Identity | Refusal:
        """Who asks, or why the request is refused. `authorization` is the header's value."""
        if not self.is_on:
            return EVERYTHING
        decision = self._decide(authorization, need)
        if isinstance(decision, Refusal):
            self.refused_count += 1
        return decision

    def _decide(self, authorization: str, need: Need) -> Identity | Refusal:
        assert self._file is not None
        try:
            book = self._file.current()
        except TokenFileError as error:
            if need is Need.NOTHING:
                return Identity()
            self._tell(str(error))
            return Refusal(
                kind=RefusalKind.NOT_NOW,
                message="the service cannot read its tokens; its log says why",
                need=need,
            )
        return decide(book, authorization, need, self._now_unix_s())

    def _tell(self, error: str) -> None:
        """Logs once what is wrong with the file."""
        if error != self._error:
            self._error = error
            _log.error("tokens_not_read", error=error)
