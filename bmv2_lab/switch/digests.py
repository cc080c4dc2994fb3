# SPDX-License-Identifier: Apache-2.0
"""Digest lists: what the data plane learned, gathered for the controllers (P4Runtime 9.10).

A message of the data plane is dropped while an equal one waits in the current list, or was sent in
a list that is neither acknowledged nor older than the acknowledgement timeout.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.digest_format import Values
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.timers import Timer, Timers

# Messages in one list where the controller sets no limit.
LIST_LIMIT = 1024
# Messages of one digest that wait or are not acknowledged; more are dropped and counted.
WAITING_LIMIT = 1 << 16
# The shortest timeouts that are kept; BMv2's server has 100 ms.
TIMEOUT_NS_MIN = 1_000_000

SendList = Callable[[p4r.DigestList], None]


@dataclass(slots=True, kw_only=True)
class _Digest:
    """One digest that is enabled."""

    config: p4r.DigestEntry
    waiting: dict[Values, None] = field(default_factory=dict)  # in order of arrival
    sent: set[Values] = field(default_factory=set)
    lists: dict[int, tuple[tuple[Values, ...], Timer]] = field(default_factory=dict)
    send_timer: Timer | None = None


class DigestLists:
    """The digests of one pipeline."""

    def __init__(self, info: PipelineInfo, timers: Timers, send: SendList) -> None:
        self.dropped_messages = 0
        self._info = info
        self._timers = timers
        self._send = send
        self._enabled: dict[int, _Digest] = {}
        self._numbers = {item.preamble.name: n for n, item in info.digests.items()}
        self._list_ids: dict[int, int] = {}

    # Control plane

    def write(self, kind: int, entry: p4r.DigestEntry) -> None:
        """Enable, change or disable a digest."""
        number = entry.digest_id
        known = self._enabled.get(number)
        if number not in self._info.digests:
            raise StateError(errors.NOT_FOUND, f"no digest with id {number:#x}")
        name = self._info.digests[number].preamble.name
        if kind == p4r.Update.INSERT and known is not None:
            raise StateError(errors.ALREADY_EXISTS, f"digest {name} is enabled already")
        if kind != p4r.Update.INSERT and known is None:
            raise StateError(errors.NOT_FOUND, f"digest {name} is not enabled")
        if known is not None and kind == p4r.Update.DELETE:
            self._stop(known)
            del self._enabled[number]
            return
        config = entry.config
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            raise StateError(errors.INVALID_ARGUMENT, f"digest {name}: a limit is negative")
        if self._info.digest_formats.get(number) is None:
            raise StateError(
                errors.UNIMPLEMENTED, f"digest {name}: not a struct or tuple of bit strings"
            )
        kept = p4r.DigestEntry()
        kept.CopyFrom(entry)
        if known is None:
            self._enabled[number] = _Digest(config=kept)
            return
        known.config = kept
        if known.send_timer is not None:
            known.send_timer.cancel()
            known.send_timer = None
        if known.waiting:
            self._send_or_wait(number, known)

    def read(self, number: int) -> list[p4r.DigestEntry]:
        """The entry of a digest, or all of them for 0; NOT_FOUND if it is not enabled."""
        if number == 0:
            return [item.config for item in self._enabled.values()]
        if number not in self._enabled:
            raise StateError(errors.NOT_FOUND, f"digest {number:#x} is not enabled")
        return [self._enabled[number].config]

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """The controller has seen a list; INVALID_ARGUMENT if the program has no such digest."""
        if message.digest_id not in self._info.digests:
            raise StateError(errors.INVALID_ARGUMENT, f"no digest with id {message.digest_id:#x}")
        digest = self._enabled.get(message.digest_id)
        if digest is not None:
            self._expire(digest, message.list_id)

    def forget_sent(self) -> None:
        """A controller became primary: it has not seen what the one before it was sent."""
        for digest in self._enabled.values():
            for list_id in list(digest.lists):
                self._expire(digest, list_id)

    def close(self) -> None:
        """Stop all timers."""
        for digest in self._enabled.values():
            self._stop(digest)
        self._enabled.clear()

    # Data plane

    def learn(self, name: str, values: Values) -> None:
        """One message of the digest with that name in the P4 program."""
        number = self._numbers.get(name, 0)
        digest = self._enabled.get(number)
        if digest is None or values in digest.waiting or values in digest.sent:
            return
        if len(digest.waiting) + len(digest.sent) >= WAITING_LIMIT:
            self.dropped_messages += 1
            return
        digest.waiting[values] = None
        self._send_or_wait(number, digest)

    def _send_or_wait(self, number: int, digest: _Digest) -> None:
        config = digest.config.config
        size = min(config.max_list_size or LIST_LIMIT, LIST_LIMIT)
        while len(digest.waiting) >= size:
            self._send_list(number, digest, size)
        if not digest.waiting:
            return
        if config.max_timeout_ns == 0:
            self._send_list(number, digest, size)
        elif digest.send_timer is None:
            delay_ns = max(config.max_timeout_ns, TIMEOUT_NS_MIN)
            digest.send_timer = self._timers.after(
                delay_ns, lambda: self._send_list(number, digest, size)
            )

    def _send_list(self, number: int, digest: _Digest, size: int) -> None:
        if digest.send_timer is not None:
            digest.send_timer.cancel()
            digest.send_timer = None
        values = tuple(digest.waiting)[:size]
        for item in values:
            del digest.waiting[item]
        list_id = self._list_ids[number] = self._list_ids.get(number, 0) + 1
        message = p4r.DigestList(digest_id=number, list_id=list_id)
        message.timestamp = self._timers.clock_ns()
        form = self._info.digest_formats[number]
        assert form is not None  # checked when the digest was enabled
        message.data.extend(form.encode(item) for item in values)
        ack_timeout_ns = digest.config.config.ack_timeout_ns
        if ack_timeout_ns:
            digest.sent.update(values)
            delay_ns = max(ack_timeout_ns, TIMEOUT_NS_MIN)
            timer = self._timers.after(delay_ns, lambda: self._expire(digest, list_id))
            digest.lists[list_id] = (values, timer)
        self._send(message)

    @staticmethod
    def _expire(digest: _Digest, list_id: int) -> None:
        found = digest.lists.pop(list_id, None)
        if found is not None:
            values, timer = found
            timer.cancel()
            digest.sent.difference_update(values)

    def _stop(self, digest: _Digest) -> None:
        for list_id in list(digest.lists):
            self._expire(digest, list_id)
        if digest.send_timer is not None:
            digest.send_timer.cancel()
        digest.waiting.clear()
