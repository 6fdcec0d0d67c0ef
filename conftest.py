"""Settings of every test run in this checkout."""

from __future__ import annotations

import hypothesis

# Machines are shared and noisy: no test fails for being slow, and each run tries the same examples.
hypothesis.settings.register_profile("chitree", deadline=None, derandomize=True)
hypothesis.settings.load_profile("chitree")
