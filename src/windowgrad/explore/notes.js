/* Known differences that settings such as these meet: the entries of windowgrad's conform (facts.py), and which of them cover a
state. Features and groups are those of conform/case.py, told from the same things in the same order. */
const notes = (() => {
  "use strict";

  const { parts, same } = states;

  /** What the arguments have beyond the defaults. */
  function features(state, answer) {
    const { base, windows: kind } = parts(state.op), sliding = kind === "sliding" && base !== "max_unpool", found = new Set();
    const put = (word, holds) => holds && found.add(word);
    const hasWinners = base === "max_pool" || base === "min_pool";
    if (sliding) slidingFeatures(state, answer, put);
    put("divisor", base === "avg_pool" && sliding && state.divisor_override !== null);
    put("without padding in the count", base === "avg_pool" && sliding && !state.count_include_pad);
    put("output padding", base === "conv_transpose" && state.output_padding.some(Boolean));
    put("window of -inf", hasWinners && state.cells.includes(-Infinity) && answer.values.includes(-Infinity));
    put("bias", states.hasWeight(state.op) && state.bias !== null);
    put("more bins than cells", kind === "adaptive" && state.output_size.some((m, axis) => (m ?? 0) > state.size[axis]));
    return found;
  }

  function slidingFeatures(state, answer, put) {
    const { size, padding, dilation, kernel_size: kernel } = state, stride = state.stride ?? states.usualStride(state);
    const isPool = states.POOLS.includes(state.op), ceil = isPool && state.ceil_mode;
    const some = (holds) => kernel.some((k, axis) => holds(k, Math.max(...padding[axis]), dilation[axis], axis));
    put("padding", padding.some((pad) => pad.some(Boolean)));
    put("uneven padding", padding.some(([lo, hi]) => lo !== hi));
    put("padding differs by axis", !same(padding));
    put("padding over half", some((k, pad) => pad > Math.floor(k / 2)));
    put("padding over dilated half", some((k, pad, d) => pad > Math.floor((d * (k - 1) + 1) / 2)));
    put("padding or a stride of ceil mode over kernel", some((k, pad, d, axis) => {
      const [lo, hi] = padding[axis], left = (size[axis] + lo + hi - k) % stride[axis];
      return Math.max(lo, hi + (ceil && left ? stride[axis] : 0)) > k;
    }));
    put("dilation", some((k, pad, d) => d > 1 && k > 1));
    put("stride", stride.some((s) => s > 1));
    put("stride one", stride.every((s) => s === 1));
    put("ceil mode", ceil);
    put("overhang", ceil && String(windows.answer({ ...state, ceil_mode: false, cotangent: null }).out) !== String(answer.out));
    put("kernel beyond input", some((k, pad, d, axis) => k > size[axis]));
  }

  /** The kind of the input; `large` is the least cell that is called so in the framework's dtype. */
  function group(state, answer, large) {
    const { base } = parts(state.op), isPool = states.POOLS.includes(base), hasWinners = base === "max_pool"
      || base === "min_pool";
    const cells = [...state.cells, ...(states.hasWeight(state.op) ? [...state.weight, state.bias ?? 0] : [])];
    if (isPool && answer.values.some((_, o) => answer.window(o).places.every((place) =>
      place.kind !== "cell"))) return "empty windows";
    if (cells.some(Number.isNaN)) return "NaN";
    if (cells.some((cell) => Math.abs(cell) === Infinity)) return "infinite";
    if (hasWinners) return new Set(state.cells.map((cell) => cell + 0)).size < state.cells.length ? "tied" : "tie-free";
    return large !== null && cells.some((cell) => Math.abs(cell) >= large) ? "large" : "plain";
  }

  /** An entry about derivatives alone says nothing where other ties are asked for than the framework could have. */
  function covers(entry, state, found, kind) {
    const isDerivative = !entry.checks.includes("forward"), hasTies = states.settings(state.op).includes("ties");
    return (
      (!entry.ops.length || entry.ops.includes(state.op)) &&
      (!entry.ranks.length || entry.ranks.includes(state.size.length)) &&
      (!entry.groups.length || entry.groups.includes(kind)) &&
      entry.features.every((word) => found.has(word)) &&
      !entry.without.some((word) => found.has(word)) &&
      !(isDerivative && (kind === "large" || (hasTies && state.ties !== states.defaults(state.op).ties)))
    );
  }

  /** The entries of `facts` about this state. */
  function about(facts, state, answer) {
    if (state.op === "max_unpool") return [];
    const found = features(state, answer), kinds = new Map();
    for (const { large } of facts.known) if (!kinds.has(large)) kinds.set(large, group(state, answer, large));
    return facts.known.filter((entry) => covers(entry, state, found, kinds.get(entry.large)));
  }

  return Object.freeze({ about, features, group });
})();
