"""Shapes and types in the signatures are enforced while tests run; one torch thread a worker; seeded property tests."""

import os
import signal

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell ignores SIGINT for what it starts in the background, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

from jaxtyping import install_import_hook  # noqa: E402

install_import_hook(["theory", "engine", "constructions", "proofs_check.certify"], "beartype.beartype").__enter__()

import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

torch.set_num_threads(1)
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")
