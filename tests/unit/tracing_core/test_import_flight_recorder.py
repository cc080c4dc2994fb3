# SPDX-License-Identifier: Apache-2.0
"""Flight Recorder dumps, and the reader of pickles that can run nothing."""

import contextlib
import os
import pickle
import subprocess
from collections import OrderedDict
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.imported import imported
from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.plain_pickle import load_plain_pickle

CREATED_NS = 1_752_867_229_235_059_000

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


def entry(**changed):
    return {
        "record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 1,
        "p2p_seq_id": 0, "op_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed",
        "time_created_ns": CREATED_NS, "time_discovered_started_ns": CREATED_NS + 100,
        "time_discovered_completed_ns": CREATED_NS + 900, "duration_ms": None, "retired": True,
        "timeout_ms": 600000, "is_p2p": False, "input_sizes": [[3, 4]], "output_sizes": [[3, 4]],
        "frames": [{"name": "main", "filename": "train.py", "line": 40}],
        **changed,
    }  # fmt: skip


def dump(*entries):
    return {"version": "2.4", "pg_config": {"0": {"name": "0"}}, "entries": list(entries)}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@given(plain_values)
def test_plain_pickles_read_as_python_reads_them(protocol, value):
    """Differential: the same value as pickle.loads, for every binary protocol."""
    assert load_plain_pickle(pickle.dumps(value, protocol)) == value


class Runs:
    """Would run a command if it were unpickled."""

    def __reduce__(self):
        return os.system, ("echo unpickled > /tmp/tempotrace-unpickled",)


@pytest.mark.parametrize(
    "value",
    [
        Runs(), [1, Runs()], {"entries": [Runs()]}, len, OrderedDict(a=1), {1, 2},
        frozenset((1,)), b"bytes", bytearray(b"x"), 1j, subprocess.Popen, datetime.now(UTC),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_everything_but_plain_data_is_refused(value, protocol):
    """No callable is ever looked up: the file is refused at the opcode that names one."""
    with pytest.raises(ImportRefusedError):
        load_plain_pickle(pickle.dumps(value, protocol))


def test_a_hostile_pickle_runs_nothing(tmp_path):
    """Import refuses the file in its report; the command in it has no effect."""
    target = tmp_path / "ran"

    class Touches:
        def __reduce__(self):
            return os.mkdir, (str(target),)

    spans, report = imported(pickle.dumps(dump(entry(state=Touches()))), name="trace_3")
    assert spans == []
    assert "more than plain data" in report.error
    assert not target.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cos\nsystem\n(S'true'\ntR.", b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", b"\x80\x02\x82\x01.",
        b"\x80\x02X\x01\x00\x00\x00aQ.", b"\x80\x02Pid\n.", b"\x80\x02(i__main__\nX\n.",
    ],
)  # fmt: skip
def test_opcodes_that_find_classes_are_refused(code):
    """GLOBAL, STACK_GLOBAL, EXT, persistent ids and INST."""
    with pytest.raises(ImportRefusedError):
        load_plain_pickle(code)


def test_containers_that_multiply_are_refused():
    """Thirty lists, each ten times the one before, are 100 bytes and would be 10^20 values."""
    value = []
    for _ in range(20):
        value = [value] * 10
    with pytest.raises(ImportRefusedError, match="more than"):
        load_plain_pickle(pickle.dumps(value))


def test_cycles_and_deep_nesting_are_refused():
    """A list that holds itself has no end."""
    cycle = []
    cycle.append(cycle)
    with pytest.raises(ImportRefusedError, match="deeper"):
        load_plain_pickle(pickle.dumps(cycle))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_refusal(data):
    """Noise behind the magic number never raises anything else."""
    with contextlib.suppress(ImportRefusedError):
        load_plain_pickle(b"\x80\x04" + data)


def test_a_truncated_pickle_is_refused_at_every_length():
    """Never another error."""
    data = pickle.dumps(dump(entry()))
    for length in range(len(data)):
        with pytest.raises(ImportRefusedError):
            load_plain_pickle(data[:length])


@pytest.mark.parametrize("form", ["json", "pickle"])
def test_collectives_become_spans_of_one_rank(form):
    """Enqueue to what the watchdog saw; the rank is in the file's name."""
    content = dump(entry())
    data = pickle.dumps(content, 2) if form == "pickle" else content
    (span,), report = imported(data, name="nccl_trace_rank_17", host="h3")
    assert (span.start_local_ns, span.end_local_ns) == (CREATED_NS, CREATED_NS + 900)
    assert span.attributes["tempotrace.rank"] == 17
    assert span.attributes["fr.frames"] == "main train.py:40"
    assert span.clock_domain == "h3/system"
    assert [event.name for event in span.events] == ["discovered.started", "discovered.completed"]
    assert report.format == "flight-recorder"


def test_ranks_of_one_collective_share_a_trace():
    """Matched by process group and sequence number, never by order of appearance."""
    a = imported(dump(entry()), name="r_0")[0][0]
    b = imported(dump(entry(collective_seq_id=2), entry(time_created_ns=CREATED_NS + 5)),
                 name="r_1")[0]  # fmt: skip
    assert a.trace_id == b[1].trace_id != b[0].trace_id
    assert a.span_id != b[1].span_id


def test_a_collective_that_hangs_has_no_end():
    """It is flagged; its end is the last instant known."""
    (span,), report = imported(dump(entry(time_discovered_completed_ns=None, state="started")))
    assert span.end_local_ns == CREATED_NS + 100
    assert report.flagged == {"not_completed": 1}


def test_stamps_of_another_clock_name_none():
    """An uptime of three hours is no Unix time."""
    (span,), report = imported(dump(entry(time_created_ns=10**13)), host="h3")
    assert span.clock_domain == ""
    assert "no Unix time" in span.resource["tempotrace.clock.reason"]
    assert report.flagged == {}


def test_integers_without_end_are_refused():
    """Their text would take quadratic time."""
    with pytest.raises(ImportRefusedError, match="integer beyond"):
        load_plain_pickle(pickle.dumps(1 << 100_000))
