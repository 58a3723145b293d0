"""Settings for all tests: a busy machine is no failure of what is tested."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The first draw of a fresh clone builds tables of characters, which takes seconds.
settings.register_profile("patient", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("patient")
