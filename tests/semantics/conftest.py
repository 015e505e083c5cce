"""Where both can say it, machine numbers and fractions are asked alike."""

import pytest
from common import fractions, numbers


@pytest.fixture(params=[numbers, fractions])
def array(request):
    """How to make an array: of machine numbers, for the kernels, and of fractions, for the specification."""
    return request.param
