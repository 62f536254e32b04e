"""Fixtures: jobs of Python ranks, and initial values."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from launcher import ROOT, Job

REFERENCE = ROOT / "test" / "data" / "torch_reference"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; `npm run test:torch -- --fast` leaves it out")


@pytest.fixture(scope="session")
def init(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder with the initial values of the reference."""
    folder: Path = tmp_path_factory.mktemp("init")
    shutil.copy(REFERENCE / "gpt_tiny_init.safetensors", folder / "model.safetensors")
    return str(folder)


@pytest.fixture(scope="session")
def job() -> Iterator[Job]:
    """A job of four ranks, in which tests train runs of their own."""
    made = Job(4)
    yield made
    made.close()


@pytest.fixture(scope="session")
def pair() -> Iterator[Job]:
    """A job of two ranks, whose work tests interrupt."""
    made = Job(2)
    yield made
    made.close()
