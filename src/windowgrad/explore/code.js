/* The settings of the page as programs of windowgrad and of other frameworks, each complete, with its result in `y`. Where a
framework has no such argument, what is equal is written instead; where nothing is, `says` says so. */
const code = (() => {
  "use strict";

  const { array, call, dilation, evenPadding, lines, made, pairs, scalar, size, tuple, when } = program;

  function onWindowgrad(q) {
    const hasWeight = states.hasWeight(q.op), name = `wg.${q.op}${q.rank}d`;
    const x = array("x", "np.array", q.cells, q.size, "np", `, dtype=float)${hasWeight ? "[None]" : ""}`);
    const start = ["import numpy as np", "import windowgrad as wg", "", x];
    if (q.kind === "global") return made(lines(start, `y = ${call(name, "x", ...reduction(q))}`));
    if (q.kind === "adaptive") return made(lines(start, `y = ${call(name, "x", bins(q.output_size), ...reduction(q))}`));
    const stride = when(String(q.stride) !== String(states.usualStride(q)), `stride=${size(q.stride)}`);
    const window = [stride, q.isUneven ? `padding=${pairs(q.padding)}` : evenPadding(q)];
    if (q.base === "max_unpool") return unpooling(q, start, name, window);
    if (hasWeight) return convolution(q, start, name, window);
    const ceil = when(q.ceil_mode, "ceil_mode=True");
    return made(lines(start, `y = ${call(name, "x", size(q.kernel_size), ...window, dilation(q), ceil, ...reduction(q))}`));
  }

  function unpooling(q, start, name, window) {
    const indices = array("indices", "np.array", q.indices, q.size, "np", ")");
    const output = when(q.output_size, `output_size=${size(q.out)}`), rule = when(q.duplicates !== "last", `duplicates="${q.duplicates}"`);
    return made(lines(start, indices, `y = ${call(name, "x", "indices", size(q.kernel_size), ...window, output, rule)}`));
  }

  function convolution(q, start, name, window) {
    const weight = array("weight", "np.array", q.weight, q.kernel_size, "np", ", dtype=float)[None, None]");
    const bias = when(q.bias !== null, `bias=np.array([${scalar(q.bias, "np")}], dtype=float)`);
    const isExtra = q.base === "conv_transpose" && q.output_padding.some(Boolean);
    const extra = when(isExtra, `output_padding=${size(q.output_padding)}`);
    return made(lines(start, weight, `y = ${call(name, "x", "weight", bias, ...window, extra, dilation(q))}`));
  }

  const bins = (sizes) => (sizes.includes(null) ? tuple(sizes.map((m) => m ?? "None")) : size(sizes));

  /** The options of a reduction that are not as usual. */
  function reduction(q) {
    const usual = q.kind === "global" ? "all" : "first", isSliding = q.kind === "sliding";
    const counts = when(isSliding && !q.count_include_pad, "count_include_pad=False");
    if (q.hasWinners) return [when(q.ties !== usual, `ties="${q.ties}"`)];
    if (q.base === "smooth_max_pool") return [counts, `beta=${scalar(q.beta, "np")}`];
    return [counts, when(isSliding && q.divisor_override !== null, `divisor_override=${q.divisor_override}`)];
  }

  function of(state, answer) {
    const q = program.question(state, answer);
    return { windowgrad: onWindowgrad(q), torch: codeTorch.of(q), jax: codeJax.of(q), onnx: codeOnnx.of(q) };
  }

  return Object.freeze({ of });
})();
