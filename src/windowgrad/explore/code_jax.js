/* The program of a question in JAX, in the float type that JAX is set to (float32 as it comes). */
const codeJax = (() => {
  "use strict";

  const { array, asWindows, call, duplicates, emptyMax, emptyMean, emptySum, lines, made, pairs, past } = program;
  const { refused, room, scalar, strange, ties, tuple, unless, when } = program;
  const NO_BINS = "JAX has no adaptive pooling; it could be written with windows, but these bins are not of equal size.";
  const NO_CEIL = "reduce_window has no ceil mode; more padding after the cells is the same.";

  function of(q) {
    if (q.kind === "global") return whole(q);
    if (q.base === "max_unpool") return unpool(q);
    if (states.hasWeight(q.op)) return q.base === "conv" ? conv(q) : transposed(q);
    const windowed = asWindows(q);
    if (windowed === null) return refused(NO_BINS);
    if (q.base === "smooth_max_pool") return smooth(windowed);
    const even = when(q.kind === "adaptive", "JAX has no adaptive pooling; bins of equal size are windows.");
    const remark = even ?? when(q.hasOverhang, NO_CEIL);
    return q.base === "avg_pool" ? mean(windowed, remark) : maximum(windowed, remark);
  }

  function start(q, module, lead = "") {
    const x = array("x", "jnp.array", q.cells, q.size, "jnp", `, dtype=float)${lead}`);
    return ["import jax.numpy as jnp", module && `from jax import ${module}`, "", x];
  }

  function whole(q) {
    const b = scalar(q.beta, "jnp"), isSmooth = q.base === "smooth_max_pool";
    const result = isSmooth ? `nn.logsumexp(${b} * x, keepdims=True) / ${b}`
      : `jnp.${{ max_pool: "max", min_pool: "min", avg_pool: "mean" }[q.base]}(x, keepdims=True)`;
    return made(lines(start(q, when(isSmooth, "nn")), `y = ${result}`), ties(q, "JAX", "split"));
  }

  /** lax.reduce_window; padded cells have the value that the reduction starts from. */
  function window(q, x, first, reduce, padding) {
    return call("lax.reduce_window", x, first, reduce, tuple(q.kernel_size), tuple(q.stride), pairs(padding),
      when(q.isDilated, `window_dilation=${tuple(q.dilation)}`));
  }

  function maximum(q, remark) {
    const [first, reduce] = q.isMin ? ["jnp.inf", "lax.min"] : ["-jnp.inf", "lax.max"];
    const text = lines(start(q, "lax"), `y = ${window(q, "x", first, reduce, room(q))}`);
    return unless(emptyMax(q, "JAX"), text, ties(q, "JAX", "first") ?? remark);
  }

  function mean(q, remark) {
    const sums = window(q, "x", "0.0", "lax.add", room(q)), ones = "jnp.ones_like(x)";
    const divisor = q.divisor_override ?? (q.count_include_pad && !q.hasOverhang ? states.product(q.kernel_size) : null);
    if (divisor !== null) return made(lines(start(q, "lax"), `y = ${sums} / ${divisor}`), remark);
    const padded = q.isPadded ? `jnp.pad(${ones}, ${pairs(q.padding)}, constant_values=1)` : ones;
    const counts = q.count_include_pad ? window(q, padded, "0.0", "lax.add", past(q))
      : window(q, ones, "0.0", "lax.add", room(q));
    return unless(emptyMean(q), lines(start(q, "lax"), `sums = ${sums}`, `counts = ${counts}`, "y = sums / counts"), remark);
  }

  function smooth(q) {
    const b = scalar(q.beta, "jnp"), counts = q.count_include_pad && q.isPadded;
    const zeros = when(counts, `x = jnp.pad(x, ${pairs(q.padding)})  # padded cells count as zeros`);
    const result = window(q, `${b} * x`, "-jnp.inf", "jnp.logaddexp", counts ? past(q) : room(q));
    const text = lines(start(q, "lax"), zeros, `y = ${result} / ${b}`);
    return unless(emptySum(q), text, "JAX has no smooth maximum; this is its definition.");
  }

  const weight = (q) => array("weight", "jnp.array", q.weight, q.kernel_size, "jnp", ", dtype=float)[None, None]");
  const bias = (q) => (q.bias === null ? "" : ` + ${scalar(q.bias, "jnp")}`);
  const dilation = (q) => when(q.isDilated, `rhs_dilation=${tuple(q.dilation)}`);

  function conv(q) {
    const result = call("lax.conv_general_dilated", "x", "weight", tuple(q.stride), pairs(q.padding), dilation(q));
    return unless(strange(q, "JAX"), lines(start(q, "lax", "[None, None]"), weight(q), `y = ${result}${bias(q)}`));
  }

  function transposed(q) {
    const reach = q.kernel_size.map((k, axis) => q.dilation[axis] * (k - 1)), letters = "DHW".slice(3 - q.rank);
    const pads = reach.map((r, axis) => [r - q.padding[axis][0], r - q.padding[axis][1] + q.output_padding[axis]]);
    const numbers = `dimension_numbers=("NC${letters}", "OI${letters}", "NC${letters}")`;
    const result = call("lax.conv_transpose", "x", "weight", tuple(q.stride), "pads", dilation(q), numbers,
      "transpose_kernel=True");
    const padding = `pads = ${pairs(pads)}  # of the input with its cells spread out`;
    return unless(strange(q, "JAX"), lines(start(q, "lax", "[None, None]"), weight(q), padding, `y = ${result}${bias(q)}`));
  }

  function unpool(q) {
    const many = states.product(q.out), wrong = q.duplicates === "last" ? duplicates(q) : null;
    const indices = array("indices", "jnp.array", q.indices, q.size, "jnp", ")");
    const dropped = when(q.indices.some((i) => i < 0),
      `indices = jnp.where(indices < 0, ${many}, indices)  # -1 would be the last cell`);
    const rule = q.duplicates === "add" ? "add" : "set", zeros = `jnp.zeros(${many})`;
    const result = `y = ${zeros}.at[indices].${rule}(x, mode="drop").reshape(${tuple(q.out)})`;
    return unless(wrong, lines(start(q, null), indices, dropped, result), "JAX has no unpooling; this is its definition.");
  }

  return Object.freeze({ of });
})();
