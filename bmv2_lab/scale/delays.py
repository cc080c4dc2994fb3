# SPDX-License-Identifier: Apache-2.0
"""True one-way delays of PTP event messages as plain text, for network simulators of others.

With them an unmodified ptp4l meets the very delays that the lab's own clients met. What is
written (docs/scale.md):

- `delays.tsv`, a line per message after the header: `client`, `direction` (`there`: Sync, time
  transmitter to client; `back`: Delay_Req), `sequence_id`, `sent_true_ns` (true time of the sending
  NIC's stamp) and `delay_ns` (from there to the receiving NIC's stamp).
- per client `CLIENT.there.delays` and `CLIENT.back.delays`: one delay in seconds a line and
  nothing else, in order of sending, which is what clknetsim's `(file "...")` reads, over and over;
- per client `CLIENT.clknetsim.conf`, a clknetsim configuration: node 1 is the time transmitter,
  node 2 the client, whose frequency error against node 1 is the true one.

A delay is true only where the truth is known: of a run of `lab scale` it was kept, of the
packet-level lab it is read off the run, or replayed from the run's folder, since everything
follows from scenario and seed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.draw import draw_fabric
from bmv2_lab.lab_run import EXCHANGES_FILE, TRUTH_FILE
from bmv2_lab.scale.recording import META_FILE, PTP_FILE
from bmv2_lab.scale.run import DELAY_DTYPE
from bmv2_lab.scenarios import scenario_by_name
from bmv2_lab.simulator.clocks import Oscillator, SteeredClock
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from controller.fabric import Fabric
from controller.ptp_log import PtpLog, read_ptp_log
from correction.records import EXCHANGE_DTYPE, Exchanges
from correction.servo import ADJUSTMENT_DTYPE, ServoLog

DELAYS_FILE = "delays.tsv"
COLUMNS = ("client", "direction", "sequence_id", "sent_true_ns", "delay_ns")
THERE, BACK = "there", "back"
SEARCH_PASSES_MAX = 64
"""Bound on the search for the instant of a reading; each pass gains five digits."""

Int64s = NDArray[np.int64]


class DelaysError(Exception):
    """A folder or run that has no true delays; `str()` is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueDelays:
    """Delays of a run's PTP event messages; `client` in `rows` indexes `clients`."""

    clients: tuple[str, ...]
    rate_offset_ppb: tuple[float, ...]
    """Of every client's oscillator, against the time transmitter's."""
    rows: NDArray[np.void]
    """Array of `DELAY_DTYPE`; residence_ns is 0 where it was not kept."""

    def of(self, client: int, *, to_client: bool) -> NDArray[np.void]:
        """One client's messages in one direction, in order of sending."""
        mine = (self.rows["client"] == client) & (self.rows["to_client"] == to_client)
        return np.asarray(np.sort(self.rows[mine], order="sent_true_ns"))


ReadTrue = Callable[[str, Int64s], Int64s]
"""`read_true(clock, readings)`: true instants of one PHC's readings."""


def delays_of_lab(lab: VirtualFabric, fabric: Fabric) -> TrueDelays:
    """The delays of a run of the packet-level lab that is still in memory."""

    def true_ns(clock: str, readings: Int64s) -> Int64s:
        known = lab.host_nodes[clock].true_of_stamp
        return np.array([known[reading] for reading in readings.tolist()], np.int64)

    exchanges = {
        name: [row for who, row in lab.result.exchanges if who == name] for name in _hosts(fabric)
    }
    return _from_exchanges(
        fabric.ptp.grandmaster,
        {name: np.array(rows, EXCHANGE_DTYPE) for name, rows in exchanges.items() if rows},
        {name: np.array(rows, ADJUSTMENT_DTYPE) for name, rows in lab.result.adjustments.items()},
        lab.truth.rate_offset_ppb,
        true_ns,
    )


def delays_of_folder(folder: Path) -> TrueDelays:
    """The delays of a folder that `lab run`, `demo` or `lab scale` wrote."""
    if (folder / META_FILE).exists():
        return _of_scale_folder(folder)
    for name in (TRUTH_FILE, EXCHANGES_FILE):
        if not (folder / name).exists():
            raise DelaysError(f"{folder}: no {name}; expected the folder of a lab run")
    return _of_lab_folder(folder)


def write_delays(
    delays: TrueDelays, out: Path, clients: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Write `delays.tsv` and the files of these clients (all by default); returns the clients."""
    chosen = delays.clients if clients is None else tuple(clients)
    unknown = sorted(set(chosen) - set(delays.clients))
    if unknown:
        raise DelaysError(f"no client called {unknown[0]!r}")
    out.mkdir(parents=True, exist_ok=True)
    number = {name: index for index, name in enumerate(delays.clients)}
    with (out / DELAYS_FILE).open("w", encoding="utf-8", newline="\n") as table:
        table.write("\t".join(COLUMNS) + "\n")
        for name in chosen:
            for direction in (THERE, BACK):
                rows = delays.of(number[name], to_client=direction == THERE)
                table.writelines(
                    f"{name}\t{direction}\t{sequence_id}\t{sent_ns}\t{delay_ns}\n"
                    for sequence_id, sent_ns, delay_ns in zip(
                        rows["sequence_id"].tolist(),
                        rows["sent_true_ns"].tolist(),
                        rows["delay_ns"].tolist(),
                        strict=True,
                    )
                )
                text = "".join(f"{_seconds(ns)}\n" for ns in rows["delay_ns"].tolist())
                (out / f"{name}.{direction}.delays").write_text(text, encoding="utf-8")
            rate = delays.rate_offset_ppb[number[name]] * 1e-9
            (out / f"{name}.clknetsim.conf").write_text(
                f"# node 1: the time transmitter, node 2: {name}\n"
                "node1_offset = 0\n"
                "node1_freq = 0\n"
                f"node2_freq = {rate:.12f}\n"
                f'node1_delay2 = (file "{name}.{THERE}.delays")\n'
                f'node2_delay1 = (file "{name}.{BACK}.delays")\n',
                encoding="utf-8",
            )
    return chosen


def _seconds(ns: int) -> str:
    """Whole ns as seconds, exactly.

    >>> _seconds(12_345)
    '0.000012345'
    """
    whole, rest = divmod(ns, 1_000_000_000)
    return f"{whole}.{rest:09}"


def _hosts(fabric: Fabric) -> list[str]:
    return [host.name for host in fabric.hosts if host.name != fabric.ptp.grandmaster]


def _from_exchanges(
    reference: str,
    exchanges: Mapping[str, Exchanges],
    adjustments: Mapping[str, NDArray[np.void]],
    rate_offset_ppb: Mapping[str, float],
    read_true: ReadTrue,
) -> TrueDelays:
    """Both messages of every exchange, from the true instants of its four stamps.

    The first adjustment may step the PHC back, so that a reading occurs twice: what comes before it
    is left out.
    """
    clients = tuple(exchanges)
    parts = [np.zeros(0, DELAY_DTYPE)]
    for index, client in enumerate(clients):
        mine = exchanges[client]
        made = adjustments.get(client)
        if made is not None and len(made):
            first_ns = int(made["phc_local_ns"][0]) + max(0, int(made["step_ns"][0]))
            mine = mine[mine["t2_local_ns"] > first_ns]
        for to_client, sent, received, sequence_id in (
            (True, (reference, "t1_reference_ns"), (client, "t2_local_ns"), "sync"),
            (False, (client, "t3_local_ns"), (reference, "t4_reference_ns"), "delay_req"),
        ):
            rows = np.zeros(len(mine), DELAY_DTYPE)
            rows["client"], rows["to_client"] = index, to_client
            rows["sequence_id"] = mine[f"{sequence_id}_sequence_id"]
            rows["sent_true_ns"] = read_true(sent[0], mine[sent[1]])
            rows["delay_ns"] = read_true(received[0], mine[received[1]]) - rows["sent_true_ns"]
            parts.append(rows)
    return TrueDelays(
        clients=clients,
        rate_offset_ppb=tuple(
            rate_offset_ppb[name] - rate_offset_ppb[reference] for name in clients
        ),
        rows=np.concatenate(parts),
    )


def _of_scale_folder(folder: Path) -> TrueDelays:
    truth = _json(folder / TRUTH_FILE)
    with np.load(folder / PTP_FILE) as arrays:
        rows, names = arrays["delays"], arrays["nic_names"].tolist()
    rates = truth["rate_offset_ppb"]
    rows["client"] -= 1  # the first NIC is the time transmitter
    return TrueDelays(
        clients=tuple(names[1:]),
        rate_offset_ppb=tuple(rates[name] - rates[names[0]] for name in names[1:]),
        rows=rows,
    )


def _of_lab_folder(folder: Path) -> TrueDelays:
    truth = _json(folder / TRUTH_FILE)
    try:
        scenario = scenario_by_name(truth["scenario"])
    except KeyError as error:
        raise DelaysError(f"{folder / TRUTH_FILE}: {error.args[0]}") from None
    drawn = draw_fabric(scenario, int(truth["seed"]))
    if truth["rate_offset_ppb"] != drawn.rate_offset_ppb:
        raise DelaysError(
            f"{folder / TRUTH_FILE}: scenario {scenario.name} and seed {truth['seed']} draw other "
            "clocks; expected a run of this version in virtual time"
        )
    fabric = drawn.fabric
    names = [host.name for host in fabric.hosts]
    log = read_ptp_log(
        folder / EXCHANGES_FILE,
        {name: index for index, name in enumerate(names)},
        time_transmitter=fabric.ptp.grandmaster,
    )
    phcs = {
        name: _Replay(drawn.oscillators[name], _adjustments(log, name), scenario.duration_ns)
        for name in names
    }
    exchanges = {
        name: log.exchanges[log.exchanges["client"] == index] for index, name in enumerate(names)
    }
    return _from_exchanges(
        fabric.ptp.grandmaster,
        {name: rows for name, rows in exchanges.items() if len(rows)},
        {name: _adjustments(log, name) for name in names},
        truth["rate_offset_ppb"],
        lambda clock, readings: phcs[clock].true_ns(readings),
    )


def _adjustments(log: PtpLog, name: str) -> NDArray[np.void]:
    servo = log.servos.get(name)
    return np.zeros(0, ADJUSTMENT_DTYPE) if servo is None else servo.adjustments


def _json(path: Path) -> Any:  # noqa: ANN401
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DelaysError(f"{path}: {error}") from None


class _Replay:
    """A PHC once more, from its oscillator and its servo's log, to the nanosecond."""

    def __init__(
        self, oscillator: Oscillator, adjustments: NDArray[np.void], duration_ns: int
    ) -> None:
        self._duration_ns = duration_ns
        self._log = ServoLog.from_adjustments(adjustments)
        clock = SteeredClock(oscillator)
        self._pieces = [clock]
        for row in adjustments:
            at_ns = self._search(clock, int(row["phc_local_ns"]))
            clock = copy(clock)
            clock.adjust(
                at_ns, frequency_ppb=float(row["frequency_ppb"]), step_ns=int(row["step_ns"])
            )
            self._pieces.append(clock)

    def true_ns(self, readings: Int64s) -> Int64s:
        """True instants of readings."""
        pieces = self._log.pieces(readings) + 1
        return np.array(
            [
                self._search(self._pieces[piece], reading)
                for piece, reading in zip(pieces.tolist(), readings.tolist(), strict=True)
            ],
            np.int64,
        )

    def _search(self, clock: SteeredClock, reading_ns: int) -> int:
        """The instant at which the clock reads this; clocks run at nearly one second a second."""
        at_ns = min(max(reading_ns - clock.read_ns(0), 0), self._duration_ns)
        for _ in range(SEARCH_PASSES_MAX):
            wrong_ns = reading_ns - clock.read_ns(at_ns)
            if not wrong_ns:
                return at_ns
            at_ns = min(max(at_ns + wrong_ns, 0), self._duration_ns)
        raise DelaysError(f"a PHC never reads {reading_ns}; the files are not of one run")
