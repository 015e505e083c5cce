"""scikit-image's block_reduce and SciPy's filters, where their blocks and their windows are those of a pooling."""

from __future__ import annotations

from windowgrad.conform.adapter import NO_SUCH, Adapter, arguments, first_reason
from windowgrad.conform.case import Case

REDUCTIONS = {"max_pool": ("np.max", "-np.inf"), "min_pool": ("np.min", "np.inf"), "avg_pool": ("np.mean", "")}
"""The function, and what fills a block that is not whole."""
FILTERS = {
    "max_pool": ("maximum_filter", "-np.inf"),
    "min_pool": ("minimum_filter", "np.inf"),
    "avg_pool": ("uniform_filter", "0"),
}
"""The name, and what is outside."""


class BlockReduce(Adapter):
    """Blocks without gap or overlap; a last block that is not whole is filled with `cval`."""

    name, title, package = "scikit-image", "scikit-image", "scikit-image"
    imports = "from skimage.measure import block_reduce"

    def supports(self, case: Case, check: str) -> str | None:
        divides = all(n % k == 0 for n, k in zip(case.spatial, case.kernel, strict=False))
        return super().supports(case, check) or first_reason(
            (not case.is_windowed, "it has blocks"),
            (case.op not in REDUCTIONS, NO_SUCH),
            (case.stride != case.kernel or "dilation" in case.features, "blocks neither overlap nor leave gaps"),
            ("padding" in case.features, "blocks have no padding"),
            (not divides and not case.ceil_mode, "a block that is not whole is kept"),
            (not divides and (case.is_mean or case.x.dtype.kind != "f"), "it fills the last block with a value"),
            (case.divisor is not None, "it has no divisor"),
            (case.group == "empty batch", "its documentation does not cover empty arrays"),
        )

    def call(self, case: Case) -> str:
        function, outside = REDUCTIONS[case.op]
        filled = f", cval={outside}" if outside and case.has_overhang else ""
        return f"block_reduce(x, {(1, 1, *case.kernel)}, {function}{filled})"


class SciPy(Adapter):
    """The filters maximum, minimum and uniform of scipy.ndimage: a window around every cell; and scipy.signal.correlate."""

    name, title, package = "scipy", "SciPy", "scipy"
    imports = "from scipy import ndimage, signal"

    def supports(self, case: Case, check: str) -> str | None:
        around = tuple((k // 2, (k - 1) // 2) for k in case.kernel)
        pooled = case.is_windowed
        return super().supports(case, check) or first_reason(
            (not pooled and case.windows != "convolution", "it has filters and correlation"),
            (pooled and case.op not in FILTERS, NO_SUCH),
            (case.group == "empty batch", "its documentation does not cover empty arrays"),
            ("dilation" in case.features, "windows have no dilation"),
            (pooled and ("stride" in case.features or case.padding != around), "a filter has a window around every cell"),
            (case.has_winners and case.x.dtype.kind != "f", "the outside is an infinity, which integers do not have"),
            (case.is_mean and case.x.dtype.kind != "f", "a filter of integers gives integers"),
            (case.is_mean and (not case.count_include_pad or case.divisor is not None), "the outside is counted"),
            (case.dtype == "float16", "it has no float16"),
            (
                case.is_convolution and ("stride" in case.features or case.arrays["weight"].shape[:2] != (1, 1)),
                "it correlates two arrays",
            ),
            (case.is_convolution and ("padding" in case.features or "bias" in case.features), "it has no such argument"),
        )

    def call(self, case: Case) -> str:
        if case.is_convolution:
            return "signal.correlate(x, weight, mode='valid', method='direct')"
        name, outside = FILTERS[case.op]
        return f"ndimage.{name}(x{arguments(size=(1, 1, *case.kernel), mode='constant')}, cval={outside})"
