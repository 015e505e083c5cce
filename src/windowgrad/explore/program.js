/* What the programs of all frameworks share: Python's way of writing numbers and tuples, and the question in plain terms.

A program is { text, says, agrees }: the text or null, a remark or null, and whether it gives the values of the page. */
const program = (() => {
  "use strict";

  const { POOLS, every, numbered, parts, same } = states;

  const tuple = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;
  const brackets = (list) => `[${list.join(", ")}]`;
  const pairs = (list) => tuple(list.map(tuple));
  /** One number for all axes where they are the same. */
  const size = (list) => (same(list) ? String(list[0]) : tuple(list));
  const call = (name, ...list) => `${name}(${list.filter((each) => each !== null).join(", ")})`;
  const lines = (...list) => list.flat().filter((line) => line !== null).join("\n");
  const when = (holds, text) => (holds ? text : null);

  /** NaN and infinities are names of a module: np.nan. */
  function scalar(value, module) {
    const text = numbered(value), name = { nan: "nan", inf: "inf", "-inf": "inf" }[text];
    if (name) return `${text.startsWith("-") ? "-" : ""}${module}.${name}`;
    return text === "-0" ? "-0.0" : text;
  }

  /** `name = make([[…], …]rest`, nested lists with a row of a plane on each line. */
  function array(name, make, cells, shape, module, rest) {
    const texts = cells.map((cell) => scalar(cell, module)), wide = Math.max(0, ...texts.map((text) => text.length));
    const nested = (list, axes, indent) => {
      if (axes.length === 1) return brackets(shape.length > 1 ? list.map((text) => text.padStart(wide)) : list);
      const step = list.length / axes[0];
      const inner = Array.from({ length: axes[0] }, (_, i) =>
        nested(list.slice(i * step, (i + 1) * step), axes.slice(1), `${indent} `));
      return `[${inner.join(`,\n${indent} `)}]`;
    };
    const start = `${name} = ${make}(`;
    return `${start}${nested(texts, shape, " ".repeat(start.length))}${rest}`;
  }

  // --- the question ---------------------------------------------------------------------------------------------------

  /** The state with its strides, and what several frameworks need to know of it. */
  function question(state, answer) {
    const { base, windows: kind } = parts(state.op), rank = state.size.length, isSliding = kind === "sliding";
    const stride = state.stride ?? states.usualStride(state), isPool = POOLS.includes(base), counts = state.count_include_pad;
    const over = every(rank, 0).map((_, axis) => (isSliding && isPool ? overhang(state, stride, answer.out, axis) : 0));
    const places = isPool ? answer.values.map((_, o) => answer.window(o).places) : [];
    return {
      ...state, base, kind, rank, stride, over, out: answer.out,
      isUneven: isSliding && state.padding.some(([lo, hi]) => lo !== hi),
      isPadded: isSliding && state.padding.some((pad) => pad.some(Boolean)),
      isDilated: isSliding && state.dilation.some((d) => d > 1),
      hasOverhang: over.some(Boolean),
      hasEmpty: places.some((list) => list.every((place) => place.kind !== "cell")),
      hasNothing: places.some((list) => list.every(({ kind: what }) => what === "past" || (what === "padding" && !counts))),
      hasStrange: [...state.cells, ...(states.hasWeight(state.op) ? state.weight : [])].some((cell) => !Number.isFinite(cell)),
      hasWinners: base === "max_pool" || base === "min_pool", isMin: base === "min_pool",
    };
  }

  /** How far the last window reaches past the padding; below 0 where ceil mode leaves out windows that would fit. */
  function overhang(state, stride, out, axis) {
    const reach = state.dilation[axis] * (state.kernel_size[axis] - 1) + 1;
    const whole = state.size[axis] + state.padding[axis][0] + state.padding[axis][1];
    const over = (out[axis] - 1) * stride[axis] + reach - whole;
    return over > 0 || over + stride[axis] <= 0 ? over : 0;
  }

  /** The padding that makes room for every window, the overhang of ceil mode included. */
  const room = (q) => q.padding.map(([lo, hi], axis) => [lo, hi + q.over[axis]]);
  const past = (q) => q.over.map((n) => [0, n]);

  /** Bins of equal size are windows; null if they are not of equal size. */
  function asWindows(q) {
    if (q.kind !== "adaptive") return q;
    const bins = q.output_size.map((m, axis) => m ?? q.size[axis]), kernel = bins.map((m, axis) => q.size[axis] / m);
    if (!kernel.every(Number.isInteger)) return null;
    const { padding, dilation: apart, ceil_mode, divisor_override, count_include_pad } = states.defaults(q.base, q.rank);
    const usual = { padding, dilation: apart, ceil_mode, divisor_override, count_include_pad };
    return { ...q, ...usual, kind: "sliding", kernel_size: kernel, stride: kernel };
  }

  const evenPadding = (q) => when(q.isPadded, `padding=${size(q.padding.map(([lo]) => lo))}`);
  const dilation = (q) => when(q.isDilated, `dilation=${size(q.dilation)}`);

  // --- remarks --------------------------------------------------------------------------------------------------------

  const made = (text, says = null, agrees = true) => ({ text, says, agrees });
  const refused = (says) => ({ text: null, says, agrees: false });
  /** A program whose values differ for the reason that is given, if there is one; else with another remark. */
  const unless = (reason, text, says = null) => made(text, reason ?? says, reason === null);

  function ties(q, who, rule) {
    if (!q.hasWinners || q.ties === rule) return null;
    const does = rule === "split" ? "shares it evenly" : "gives it to the first";
    return `The values are the same. The gradient among equal cells is not: ties="${q.ties}" is asked for, ${who} ${does}.`;
  }

  const emptyMax = (q, who) =>
    when(q.hasEmpty, `A window without a real cell gives ${q.isMin ? "∞" : "−∞"} in ${who}, and 0 here.`);
  const emptyMean = (q) => when(q.hasEmpty && !q.count_include_pad && q.divisor_override === null,
    "A window without a real cell gives 0 ÷ 0 by this program, and 0 here.");
  const emptySum = (q) => when(q.hasNothing, "A window in which nothing counts gives an infinity by this program, and 0 here.");
  const strange = (q, who) => when(q.hasStrange, `With NaN or infinities, ${who} may multiply them with zeros that are no cells, ` +
    "and give NaN; here a padded cell has no product.");

  function duplicates(q) {
    const kept = q.indices.filter((i) => i >= 0), here = q.duplicates === "last" ? "the last is" : "they are added";
    return when(new Set(kept).size < kept.length,
      `Two cells have the same index: which of them is kept is not said there; here ${here}.`);
  }

  return Object.freeze({
    array, asWindows, brackets, call, dilation, duplicates, emptyMax, emptyMean, emptySum, evenPadding, lines, made, pairs, past,
    question, refused, room, scalar, size, strange, ties, tuple, unless, when,
  });
})();
