"""The server's soak in small: kills lose nothing acknowledged, slow clients keep nobody waiting."""

import random
import shutil

import pytest

from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from tests.people import people
from tests.serve.soak.connections import besieged
from tests.serve.soak.serve import STOPS, ServerProcess, sent, sent_and_killed, sent_and_stopped
from tests.store.dump import dump


@pytest.mark.slow
def test_a_server_loses_nothing_that_it_acknowledged(tmp_path):
    found = people(400, 5)
    whole, killed = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    add_fragments(str(whole), found[:300], RunOptions(likelihood="attributes"))
    shutil.copy(whole, killed)
    batches = [found[at : at + 50] for at in range(300, len(found), 50)]
    names = [value for x in found[:100] for value in x.properties.get("name", ())]
    stopped = {by: shutil.copy(whole, tmp_path / f"{by.name}.sqlite") for by in STOPS}
    with ServerProcess(whole) as server, server.readers(names):
        sent(server, batches, 1000)
    assert sent_and_killed(killed, batches, 4, random.Random(1)) == (0, 4)
    assert dump(killed) == dump(whole)
    for by, store in stopped.items():
        assert sent_and_stopped(store, found[300:], by) == 0


@pytest.mark.slow
def test_readers_are_served_beside_more_slow_clients_than_there_is_room_for(tmp_path):
    seconds, lines = besieged(tmp_path, 300, connections=120, seconds=3, files=200)
    assert len(seconds) >= 8  # a reader that is not answered fails it
    assert lines < 10
