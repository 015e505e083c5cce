"""How hard Hypothesis looks: `dev` for a quick answer, `ci` in the test command, `nightly` to leave running."""

import os

from hypothesis import HealthCheck, settings

slow_is_fine = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("dev", max_examples=25, **slow_is_fine)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **slow_is_fine)
settings.register_profile("nightly", max_examples=5000, **slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
