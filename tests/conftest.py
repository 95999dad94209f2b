"""Shapes in the signatures are enforced while tests run; one torch thread a worker; seeded property tests."""

import os
import signal

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell ignores SIGINT for what it starts in the background, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

from tests._signatures import enforce  # noqa: E402

enforce()

import pytest  # noqa: E402
import torch  # noqa: E402
from filelock import FileLock  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from tests._commands import Report, make_report  # noqa: E402

torch.set_num_threads(1)
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What reads the report is slow, whoever of its readers comes first and makes it."""
    for item in items:
        if "report" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One whole report for all tests that read one: worker processes share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "report"
    folder.mkdir(exist_ok=True)
    printed, code = folder / "printed.json", folder / "exit_code"
    with FileLock(folder / "lock"):
        if not code.exists():
            made = make_report(folder / "out")
            printed.write_text(made.printed)
            code.write_text(str(made.exit_code))
    return Report(folder / "out", printed.read_text(), int(code.read_text()))
