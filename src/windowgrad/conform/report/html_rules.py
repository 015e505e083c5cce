"""The sentences of docs/semantics.md by which a report quotes each rule, word for word; a test compares them."""

from __future__ import annotations

SENTENCES: dict[str, tuple[str, ...]] = {
    "1. Size": (
        "out = floor((n + lo + hi − d·(k−1) − 1) / s) + 1",
        "Window `i` starts at cell `i·s − lo` and sees `k` cells, `d` apart.",
        "With `ceil_mode=True` the division is rounded up, so the last window may hang over the end of the padded input.",
    ),
    "2. Padding and max": ("A padded cell is absent from a maximum. It is not −∞, not 0, and it never wins.",),
    "3. Empty window": (
        'With a large padding or dilation a window may see no real cell. Then, with `empty="zero"` (the default), its value '
        "is 0, its index −1, its tangent 0, and its gradient is dropped.",
    ),
    "4. Ties": (
        "When several cells of a window are equal to its maximum, `ties` says which of them the derivative belongs to.",
        '| `"first"` | the tangent of the first winner in row-major order | the gradient goes to it |',
        '| `"all"` | the sum of the tangents of all winners | each winner gets the full gradient |',
        '| `"split"` | the mean of the tangents of all winners | the gradient is shared evenly among them |',
        "The value does not depend on `ties`, and `return_indices` always gives the first winner.",
    ),
    "5. NaN": (
        "NaN counts as the greatest value, wherever it is in the window. NaN equals NaN here, so ties among them are resolved "
        "by the tie rule.",
        "In a mean and a smooth maximum a NaN makes its windows NaN, and no others.",
    ),
    "6. Mean": (
        "The mean is the sum of the real cells of the window, divided by",
        "`count_include_pad=True` (the default): the cells of the window inside the padded input, real and padded, but never "
        "the overhang of ceil mode;",
        "`count_include_pad=False`: the real cells only; with no real cell the result is 0;",
        "`divisor_override`: that number, whatever the other options are.",
    ),
    "8. Types and error": (
        "Max keeps every dtype: bool, integers of 8 to 64 bits with and without a sign, float16, float32, float64, and "
        "bfloat16 where `ml_dtypes` is installed. Mean and smooth max keep floats; integers give float64, and those of 8 and "
        "16 bits float32. Convolution of floats gives the dtype that NumPy promotes them to; of integers it is exact, in int32 "
        "if all have 8 bits, else in int64.",
    ),
    "9. Empty batch": ("A batch axis may have length 0; the result then has length 0 there too.",),
    "Adaptive pooling": (
        "**Adaptive pooling** divides `n` cells into `m` bins: bin `i` is `[floor(i·n/m), ceil((i+1)·n/m))`. Bins may overlap, "
        "and there may be more of them than cells;",
    ),
    "Indices": ("**Indices** count the cells of the spatial plane in row-major order",),
    "Masks": (
        "`where=` leaves cells out: an array of bool that broadcasts to x, False where a cell is absent, as padding is in a "
        "maximum. A mean divides by the cells that are left (and the padded ones where they count). A NaN or an infinity that "
        "is left out touches nothing, neither value nor derivative, and its gradient is 0. A window with no cell left follows "
        "the rule for empty windows.",
    ),
    "p-norm": (
        "y = (Σ |x|^p)^(1/p) over the cells of the window, for a finite p ≥ 1",
        "A padded cell adds nothing, so it may count as absent or as zero; a window without a real cell is 0.",
        "A cell weighs sign(x)·(|x|/y)^(p−1). A window of zeros has the derivative 0, and so have cells that are 0 where "
        "p = 1.",
    ),
    "Convolution": (
        "`conv` is cross-correlation: the weight is not turned around.",
        "y[f, o] = bias[f] + Σ over c, j of weight[f, c, j] · x[c′, o·s + j·d − lo]",
        "A padded cell is a zero and adds no product.",
    ),
    "Transposed convolution": (
        "`conv_transpose` is the adjoint of `conv` in its input: `x[c, i]` adds `x[c, i] · weight[c, f, j]` to "
        "`y[f′, i·s + j·d − lo]`, and what falls outside `y` is dropped.",
        "out = (n − 1)·s + d·(k−1) + 1 + output_padding − lo − hi",
    ),
}
