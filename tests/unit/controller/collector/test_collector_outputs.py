# SPDX-License-Identifier: Apache-2.0
"""Outputs in the process: files that survive a kill, a bounded queue, names that say why."""

import threading
from dataclasses import replace

import pytest

from controller.collector.outputs.file_output import FileOutput, read_folder
from controller.collector.outputs.open_output import open_output
from controller.collector.outputs.output import OutputError, WhenFull, parse_output
from controller.collector.outputs.part import encode_part
from controller.collector.outputs.pump import OutputPump
from controller.collector.outputs.queue_output import QueueOutput
from tests.support.collected import collection, part


def test_files_give_back_what_was_written(tmp_path):
    """Over several files, in order; every written part is acknowledged."""
    size = len(encode_part(part(0)))
    output = FileOutput(tmp_path, rotate_bytes=2 * size + 10)
    for number in range(5):
        output.write(part(number))
    output.close()
    assert [found.number for found in read_folder(tmp_path)] == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "collected-00000001.parts",
        "collected-00000002.parts",
        "collected-00000003.parts",
    ]
    counters = output.counters
    assert (counters.acknowledged_parts, counters.acknowledged_packets) == (5, 25)
    assert counters.acknowledged_bytes == sum(len(encode_part(part(n))) for n in range(5))


def test_a_part_is_in_the_file_when_write_returns(tmp_path):
    """Nothing waits in the process: what a kill can take is the part being written."""
    output = FileOutput(tmp_path)
    output.write(part(0))
    assert [found.number for found in read_folder(tmp_path)] == [0]
    output.close()


def test_after_a_cut_part_a_new_file_begins(tmp_path):
    """A restarted collector never writes behind what its forerunner left half done."""
    output = FileOutput(tmp_path)
    output.write(part(0))
    output.write(part(1))
    output.close()
    first = tmp_path / "collected-00000001.parts"
    first.write_bytes(first.read_bytes()[:-7])
    again = FileOutput(tmp_path)
    again.write(part(0, run="r2"))
    again.close()
    assert [(found.run, found.number) for found in read_folder(tmp_path)] == [("r1", 0), ("r2", 0)]


def test_only_the_newest_files_are_kept(tmp_path):
    """`keep` bounds the folder; other files in it are left alone."""
    (tmp_path / "notes.txt").write_text("mine")
    output = FileOutput(tmp_path, rotate_bytes=1, keep=2)
    for number in range(6):
        output.write(part(number))
    output.close()
    assert [found.number for found in read_folder(tmp_path)] == [4, 5]
    assert (tmp_path / "notes.txt").exists()


def test_a_folder_that_cannot_be_one_is_an_error(tmp_path):
    """One line that names the output."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match=r"output file:.*taken: File exists"):
        FileOutput(tmp_path / "taken")


def test_a_full_queue_drops_and_counts_when_told_to():
    """Offered = taken by the reader + waiting + dropped."""
    output = QueueOutput(parts_max=2, when_full=WhenFull.DROP)
    for number in range(5):
        output.write(part(number))
    assert output.read().number == 0
    counters = output.counters
    assert (counters.acknowledged_parts, counters.waiting_parts) == (1, 1)
    assert (counters.dropped_parts, counters.dropped_packets) == (3, 15)
    output.close()
    assert [output.read().number, output.read(), output.read()] == [1, None, None]


def test_a_full_queue_blocks_until_the_reader_takes_one():
    """Nothing is dropped, and the wait is counted."""
    ticks = iter([5, 12])
    output = QueueOutput(parts_max=1, monotonic_ns=lambda: next(ticks))
    output.write(part(0))
    writer = threading.Thread(target=output.write, args=(part(1),))
    writer.start()
    assert [output.read().number, output.read().number] == [0, 1]
    writer.join()
    counters = output.counters
    assert (counters.acknowledged_parts, counters.dropped_parts) == (2, 0)
    assert counters.blocked_ns in (0, 7)


def test_the_pump_numbers_parts_over_all_drains(tmp_path):
    """Each output gets every part once; a drain with nothing in it takes no number."""
    queue = QueueOutput()
    pump = OutputPump([FileOutput(tmp_path), queue], run="run-1")
    assert pump.write(collection(packets=2, drops=1)) == 2
    assert pump.write(collection(packets=0, drops=0)) == 0
    assert pump.write(collection(packets=1, drops=0, first_psn=9)) == 1
    pump.close()
    in_files = list(read_folder(tmp_path))
    assert [(found.run, found.number) for found in in_files] == [
        ("run-1", 0),
        ("run-1", 1),
        ("run-1", 2),
    ]
    assert [queue.read().part_id for _ in range(3)] == [found.part_id for found in in_files]
    assert in_files[0].totals["received"] == 7


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("file:", "expected file:DIR"),
        ("kafka://a/b", "expected file:DIR or nats://HOST:PORT/SUBJECT, got 'kafka'"),
        ("reports.parts", "expected file:DIR or nats"),
        ("nats://localhost:4222", "expected nats://HOST:PORT/SUBJECT"),
        ("nats://localhost:4222/a.*", "expected nats://HOST:PORT/SUBJECT"),
        ("file:x?rotate=5", "rotate is not one of keep, rotate_mib, sync"),
    ],
)
def test_wrong_names_say_what_is_expected(text, complaint):
    """The text itself is in the line, too."""
    with pytest.raises(OutputError, match=r"output '") as caught:
        parse_output(text)
    assert complaint in str(caught.value)


def test_wrong_options_are_named(tmp_path):
    """A number that is none, and a policy that does not exist."""
    with pytest.raises(OutputError, match="keep=-1 is not a number from 0"):
        open_output(f"file:{tmp_path}?keep=-1")
    with pytest.raises(OutputError, match="when_full=wait is neither block nor drop"):
        open_output("nats://127.0.0.1:1/a?when_full=wait")


def test_names_carry_no_secrets(monkeypatch):
    """User and password of a server are not in metrics or messages."""
    monkeypatch.setattr("controller.collector.outputs.nats_jetstream.CONNECT_S", 0.5)
    with pytest.raises(OutputError) as caught:
        open_output("nats://user:secret@127.0.0.1:1/a.b")
    assert str(caught.value).startswith("output nats://127.0.0.1:1/a.b: cannot connect")
    assert "secret" not in str(caught.value)
    assert "Connect" in str(caught.value)


def test_parts_differ_only_by_what_is_in_them():
    """The same packets under another number are the same content."""
    one = part(0)
    assert replace(one, number=7).part_id == one.part_id


def test_waiting_for_room_ends_when_told_to_give_up():
    """A collector that shall end is not held by a reader that never comes: the part is counted."""
    output = QueueOutput(parts_max=1)
    output.write(part(0))
    asked = iter([False, True])
    output.write(part(1), lambda: next(asked))
    assert output.counters.dropped_parts == 1
    assert output.counters.blocked_ns > 0
