# SPDX-License-Identifier: Apache-2.0
"""Errors of the P4Runtime library as errors of a switch, which name entries."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import finsy as fy

from controller.p4channel import ChannelClosedError
from controller.p4info_codec import CodecError
from controller.reconcile import Update
from controller.switch_error import SwitchError

_LOST = frozenset(
    {
        fy.GRPCStatusCode.UNAVAILABLE,
        fy.GRPCStatusCode.DEADLINE_EXCEEDED,
        fy.GRPCStatusCode.CANCELLED,
    }
)
"""Codes of a switch that is gone or hangs, rather than one that refuses."""


@contextmanager
def wrapped(name: str, batch: Sequence[Update] = ()) -> Iterator[None]:
    """Wraps what the library raises, once; batch: what was being written."""
    try:
        yield
    except fy.P4ClientError as error:
        raise _switch_error(name, error, batch) from error
    except CodecError as error:
        raise SwitchError(switch=name, message=str(error)) from error
    except ChannelClosedError as error:
        raise SwitchError(switch=name, message="the session was closed", lost=True) from error


def _switch_error(name: str, error: fy.P4ClientError, batch: Sequence[Update]) -> SwitchError:
    """The first entry at fault, what the switch said, and how many others failed with it."""
    failed = sorted(error.details.items())
    if batch and failed and failed[0][0] < len(batch):
        index, detail = failed[0]
        update = batch[index]
        message = (
            f"{update.operation.name.lower()} failed: "
            f"{_said(detail.canonical_code, detail.message)}"
        )
        if len(batch) > 1:
            message += f" ({len(failed)} of {len(batch)} updates of this request failed)"
        return SwitchError(switch=name, where=update.entry.where, message=message)
    lost = error.code in _LOST
    message = _said(error.code, error.message)
    if error.code is fy.GRPCStatusCode.NOT_FOUND and not batch:
        message += "; p4runtime and device_id must be those of this switch"
    if batch:
        where = batch[0].entry.where
        if len(batch) > 1:
            message += f" (in a request of {len(batch)} updates that starts there)"
        return SwitchError(switch=name, where=where, message=message, lost=lost)
    return SwitchError(
        switch=name,
        message=message,
        lost=lost,
        election_id_taken=error.is_election_id_used,
    )


def _said(code: fy.GRPCStatusCode, message: str) -> str:
    return f"{code.name}: {message}" if message else code.name
