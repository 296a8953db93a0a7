"""Fixtures of the training room."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Small models are faster so, and the bits do not depend on the machine's load."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
