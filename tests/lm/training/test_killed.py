"""Training killed with SIGKILL: three times here, ten times by the reproduction's script."""

import random

import pytest
import torch

from tests.scripts import script

killed_training = script("killed_training")


@pytest.mark.slow
def test_three_kills_leave_the_same_weights(program, tmp_path):
    # one thread in the processes that are killed, so one here
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        killed_training.write_recipe(tmp_path, tokens=12_000)
        assert program(*killed_training.arguments(tmp_path, "whole")).code == 0
        whole = killed_training.outcome(tmp_path / "whole")
        rng = random.Random(1)
        for _ in range(3):
            assert killed_training.kill(tmp_path, "killed", rng, len(whole[1]) // 5)
        assert program(*killed_training.arguments(tmp_path, "killed")).code == 0
    finally:
        torch.set_num_threads(threads)
    assert killed_training.outcome(tmp_path / "killed") == whole
