"""The typed public functions. The modules named like those of the specification are generated from the table of operators."""

from windowgrad.functional import convolution, logsumexp, maximum, mean, minimum, padding, pnorm, reduction, shapes, unpooling
from windowgrad.functional.convolution import *  # noqa: F403  # each module lists its public functions in its __all__
from windowgrad.functional.logsumexp import *  # noqa: F403
from windowgrad.functional.maximum import *  # noqa: F403
from windowgrad.functional.mean import *  # noqa: F403
from windowgrad.functional.minimum import *  # noqa: F403
from windowgrad.functional.padding import *  # noqa: F403
from windowgrad.functional.pnorm import *  # noqa: F403
from windowgrad.functional.reduction import *  # noqa: F403
from windowgrad.functional.shapes import *  # noqa: F403
from windowgrad.functional.unpooling import *  # noqa: F403

__all__: list[str] = []
__all__ += convolution.__all__
__all__ += logsumexp.__all__
__all__ += maximum.__all__
__all__ += mean.__all__
__all__ += minimum.__all__
__all__ += padding.__all__
__all__ += pnorm.__all__
__all__ += reduction.__all__
__all__ += shapes.__all__
__all__ += unpooling.__all__
