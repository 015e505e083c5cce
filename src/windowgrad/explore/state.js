/* What is asked: the settings of the page as a plain object, and as the words of an address.

A state has the names of the library's arguments (see windows.js) and three of the page's own: `seed`, from which all cells are
drawn that nobody has written; `at`, the chosen output; `back`, whose gradient is shown ("one" or "all" outputs). What is null
is not written: cells, weight and indices then come from the seed, the cotangent is all ones, the stride is the default. */
const states = (() => {
  "use strict";

  const POOLS = ["max_pool", "min_pool", "avg_pool", "smooth_max_pool"];
  const OTHERS = ["conv", "conv_transpose", "max_unpool"];
  const TIES = ["first", "all", "split"], DUPLICATES = ["last", "add"], BACKS = ["one", "all"];
  const OPS = [...POOLS, ...POOLS.map((name) => `adaptive_${name}`), ...POOLS.map((name) => `global_${name}`), ...OTHERS];
  const MOST_AXES = 3, MOST_CELLS = 400;

  const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
  const every = (rank, value) => Array.from({ length: rank }, () => value);
  const same = (list) => list.every((value) => String(value) === String(list[0]));

  // --- which operator has which settings ----------------------------------------------------------------------------

  /** "adaptive_max_pool" is { base: "max_pool", windows: "adaptive" }. */
  function parts(op) {
    const [, prefix, base] = /^(adaptive_|global_)?(.*)$/.exec(op);
    return { base, windows: prefix ? prefix.slice(0, -1) : "sliding" };
  }

  const joined = (base, windows) => (windows === "sliding" || OTHERS.includes(base) ? base : `${windows}_${base}`);

  /** The names of the settings that an operator has, apart from its cells. */
  function settings(op) {
    const { base, windows } = parts(op), found = [];
    if (windows === "sliding") found.push("kernel_size", "stride", "padding");
    if (windows === "sliding" && base !== "max_unpool") found.push("dilation");
    if (windows === "sliding" && POOLS.includes(base)) found.push("ceil_mode");
    if (windows === "adaptive") found.push("output_size");
    if (base === "max_pool" || base === "min_pool") found.push("ties");
    if (windows === "sliding" && (base === "avg_pool" || base === "smooth_max_pool")) found.push("count_include_pad");
    if (base === "avg_pool" && windows === "sliding") found.push("divisor_override");
    if (base === "smooth_max_pool") found.push("beta");
    if (base === "conv_transpose") found.push("output_padding");
    if (base === "max_unpool") found.push("output_size", "duplicates", "indices");
    if (hasWeight(op)) found.push("weight", "bias");
    return found;
  }

  const hasWeight = (op) => op === "conv" || op === "conv_transpose";
  const usualTies = (op) => (parts(op).windows === "global" ? "all" : "first");
  const usualStride = (state) => (hasWeight(state.op) ? every(state.size.length, 1) : state.kernel_size);

  function defaults(op = "max_pool", rank = 2) {
    const size = (op === "max_unpool" ? [5, 3, 2] : [9, 6, 4])[rank - 1];
    return {
      op, size: every(rank, size), kernel_size: every(rank, op === "max_unpool" || rank === 3 ? 2 : 3),
      stride: null, padding: every(rank, [0, 0]), dilation: every(rank, 1), ceil_mode: false, count_include_pad: true,
      divisor_override: null, ties: usualTies(op), beta: 1,
      output_size: every(rank, op === "max_unpool" ? null : rank === 3 ? 2 : 4), output_padding: every(rank, 0),
      duplicates: "last", seed: 1, cells: null, weight: null, bias: null, indices: null, cotangent: null, at: 0, back: "one",
    };
  }

  /** What the page opens with. */
  const first = () => ({ ...defaults(), stride: [2, 2], padding: every(2, [1, 1]) });

  // --- cells that nobody has written --------------------------------------------------------------------------------

  /** An integer from `low` on, one of `many`, which depends on the seed and the place alone: so a cell keeps its value
  when the size changes. */
  function drawn(seed, place, low, many) {
    let bits = Math.imul(seed + 1, 0x9e3779b1);
    for (const i of place) {
      bits = Math.imul(bits ^ (i + 0x7f4a7c15), 0x85ebca6b);
      bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
      bits ^= bits >>> 16;
    }
    return low + (bits >>> 0) % many;
  }

  function placeOf(flat, size) {
    const place = [];
    for (let axis = size.length - 1; axis >= 0; axis--) {
      place.unshift(flat % size[axis]);
      flat = Math.floor(flat / size[axis]);
    }
    return place;
  }

  const flatOf = (place, size) => place.reduce((flat, i, axis) => flat * size[axis] + i, 0);
  const isIn = (place, size) => place.every((i, axis) => i >= 0 && i < size[axis]);
  const drawnCells = (seed, size) => plane(size, (place) => drawn(seed, place, -9, 19));
  const drawnWeight = (seed, size) => plane(size, (place) => drawn(seed + 100, place, -2, 5));

  function plane(size, value) {
    const many = size.every((n) => n > 0) ? product(size) : 0;
    return many > MOST_CELLS ? [] : Array.from({ length: many }, (_, flat) => value(placeOf(flat, size)));
  }

  /** The state with every array filled in: what windows.answer takes. */
  function filled(state) {
    const full = { ...state, cells: state.cells ?? drawnCells(state.seed, state.size) };
    if (hasWeight(state.op)) {
      full.weight = state.weight ?? drawnWeight(state.seed, state.kernel_size);
      full.stride = state.stride ?? usualStride(state);
    }
    return state.op === "max_unpool" ? unpooled(state, full) : full;
  }

  /** Cells and indices of an unpooling that nobody has written are the maxima of a drawn plane, and where they were. */
  function unpooled(state, full) {
    const kernel_size = state.kernel_size, stride = state.stride ?? kernel_size, { padding } = state;
    const least = state.size.map((n, axis) => (n - 1) * stride[axis] + kernel_size[axis] - padding[axis][0] - padding[axis][1]);
    const size = least.map((n, axis) => state.output_size[axis] ?? n), most = product(size);
    full.output_size = state.output_size.every((n) => n === null) ? null : size;
    const pool = { ...defaults("max_pool", size.length), size, kernel_size, stride, padding,
      cells: drawnCells(state.seed, size) };
    let found = { values: full.cells, indices: full.cells.map((_, flat) => (flat < most ? flat : -1)) };
    try {
      const pooled = windows.answer(pool);
      if (String(pooled.out) === String(state.size)) found = pooled;
    } catch {
      // sizes that are wrong are told of when the unpooling itself is computed
    }
    return { ...full, cells: state.cells ?? found.values, indices: state.indices ?? found.indices };
  }

  /** Written cells after a change of size: those that are still there are kept, new ones are drawn. */
  function resized(cells, before, after, fresh) {
    if (cells === null) return null;
    return fresh.map((value, flat) => {
      const place = placeOf(flat, after);
      return isIn(place, before) ? cells[flatOf(place, before)] : value;
    });
  }

  // --- changes ------------------------------------------------------------------------------------------------------

  /** The state with some settings changed, and all that hangs on them. */
  function changed(state, changes) {
    const next = { ...state, ...changes };
    if (changes.size) next.cells = resized(state.cells, state.size, next.size, drawnCells(next.seed, next.size));
    if (changes.kernel_size)
      next.weight = resized(state.weight, state.kernel_size, next.kernel_size, drawnWeight(next.seed, next.kernel_size));
    const geometry = ["op", "size", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "output_size",
      "output_padding"];
    if (geometry.some((name) => name in changes)) Object.assign(next, { indices: null, cotangent: null });
    return next;
  }

  /** Another operator: settings that both have are kept where they make sense for it. */
  function withOp(state, op) {
    const { seed, size, kernel_size, padding, dilation, ceil_mode, cells, back } = state, rank = size.length;
    const next = { ...defaults(op, rank), seed, size, cells, back };
    const before = settings(state.op), after = settings(op);
    if (op === "max_unpool" || state.op === "max_unpool") return { ...defaults(op, rank), seed, back };
    if (before.includes("kernel_size")) Object.assign(next, { kernel_size, padding, dilation });
    if (before.includes("kernel_size")) next.stride = state.stride
      ?? (hasWeight(op) === hasWeight(state.op) ? null : usualStride(state));
    if (before.includes("ceil_mode") && after.includes("ceil_mode")) next.ceil_mode = ceil_mode;
    if (hasWeight(op) && hasWeight(state.op)) Object.assign(next, { weight: state.weight, bias: state.bias });
    return next;
  }

  /** Another number of axes: each setting has the value of the last axis on a new one. */
  function withRank(state, rank) {
    const usual = defaults(state.op, rank), next = { ...usual, seed: state.seed, back: state.back };
    for (const name of ["ceil_mode", "count_include_pad", "divisor_override", "ties", "beta", "bias", "duplicates"])
      next[name] = state[name];
    for (const name of ["kernel_size", "stride", "padding", "dilation", "output_padding"])
      if (state[name] !== null) next[name] = Array.from({ length: rank }, (_, axis) => state[name][axis] ?? state[name].at(-1));
    return next;
  }

  // --- addresses ----------------------------------------------------------------------------------------------------

  const numbered = (value) => (Object.is(value, -0) ? "-0" : value === Infinity ? "inf" : value === -Infinity ? "-inf"
    : Number.isNaN(value) ? "nan" : String(value));

  /** A number as people write it, or undefined: 2, -0.5, 1e3, nan, inf, -∞. */
  function number(text) {
    const plain = text.trim().toLowerCase().replace(/−/g, "-").replace(/∞|infinity/g, "inf").replace(/^\+/, "");
    const words = { nan: NaN, "-nan": NaN, inf: Infinity, "-inf": -Infinity };
    if (plain in words) return words[plain];
    return /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(plain) ? Number(plain) : undefined;
  }

  const pair = ([before, after]) => (before === after ? String(before) : `${before}:${after}`);
  const perAxis = (list, one = String) => (same(list) ? one(list[0]) : list.map(one).join("x"));
  const listed = (cells) => cells.map(numbered).join(",");

  /** The settings in the words of an address; what is as usual is left out. */
  function written(state) {
    const usual = defaults(state.op, state.size.length), has = new Set(settings(state.op)), words = [];
    const put = (key, name, value) => {
      if ((name === null || has.has(name)) && value !== null) words.push(`${key}=${value}`);
    };
    const unusual = (name, text) => (String(state[name]) === String(usual[name]) ? null : text);
    words.push(`op=${state.op}`, `size=${state.size.join("x")}`);
    put("kernel", "kernel_size", perAxis(state.kernel_size));
    put("stride", "stride", state.stride && perAxis(state.stride));
    put("padding", "padding", unusual("padding", perAxis(state.padding, pair)));
    put("dilation", "dilation", unusual("dilation", perAxis(state.dilation)));
    put("ceil", "ceil_mode", unusual("ceil_mode", "1"));
    put("count_include_pad", "count_include_pad", unusual("count_include_pad", "0"));
    put("divisor", "divisor_override", state.divisor_override);
    put("ties", "ties", unusual("ties", state.ties));
    put("beta", "beta", numbered(state.beta));
    const sizes = perAxis(state.output_size, (n) => n ?? "-");
    put("output_size", "output_size", parts(state.op).windows === "adaptive" ? sizes : unusual("output_size", sizes));
    put("output_padding", "output_padding", unusual("output_padding", perAxis(state.output_padding)));
    put("duplicates", "duplicates", unusual("duplicates", state.duplicates));
    if (!state.cells || (hasWeight(state.op) && !state.weight) || (has.has("indices") && !state.indices)) put("seed", null,
      state.seed);
    put("cells", null, state.cells && listed(state.cells));
    put("weight", "weight", state.weight && listed(state.weight));
    put("bias", "bias", state.bias === null ? null : numbered(state.bias));
    put("indices", "indices", state.indices && listed(state.indices));
    put("g", null, state.cotangent && listed(state.cotangent));
    if (state.at) put("at", null, state.at);
    if (state.back === "all") put("back", null, "all");
    return `#${words.join("&")}`;
  }

  /** The state that an address tells of; an Error says in plain words what is wrong with it. */
  function read(hash) {
    const words = new Map();
    for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
      const [key, ...value] = part.split("=");
      if (words.has(key)) throw new Error(`${key}: is there twice`);
      words.set(decoded(key), decoded(value.join("=")));
    }
    return words.size ? fromWords(words) : first();
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function fromWords(words) {
    const has = (key) => words.has(key), text = (key) => words.get(key);
    const known = ["op", "size", "kernel", "stride", "padding", "dilation", "ceil", "count_include_pad", "divisor", "ties",
      "beta",
      "output_size", "output_padding", "duplicates", "seed", "cells", "weight", "bias", "indices", "g", "at", "back"];
    for (const key of words.keys()) if (!known.includes(key)) throw new Error(`${key}: is not a setting`);
    const op = has("op") ? oneOf("op", text("op"), OPS) : "max_pool";
    const size = has("size") ? text("size").split("x").map((part) => integer("size", part, text("size"))) : null;
    if (size && size.length > MOST_AXES) throw new Error(`size=${text("size")}: must have one to three axes`);
    const state = defaults(op, size ? size.length : 2), rank = state.size.length;
    const axes = (key, name, one = (part) => integer(key, part, text(key))) => {
      if (has(key)) state[name] = entries(key, text(key), rank).map(one);
    };
    const choice = (key, name, allowed) => {
      if (has(key)) state[name] = oneOf(key, text(key), allowed);
    };
    const list = (key, name, one) => {
      if (has(key)) state[name] = text(key).split(",").map((part) => one(key, part));
    };
    if (size) state.size = size;
    axes("kernel", "kernel_size");
    axes("stride", "stride");
    axes("padding", "padding", (part) => padding(part));
    axes("dilation", "dilation");
    axes("output_size", "output_size", (part) => (part === "-" ? null : integer("output_size", part, text("output_size"))));
    axes("output_padding", "output_padding");
    if (has("ceil")) state.ceil_mode = oneOf("ceil", text("ceil"), ["0", "1"]) === "1";
    if (has("count_include_pad")) state.count_include_pad = oneOf("count_include_pad", text("count_include_pad"),
      ["0", "1"]) === "1";
    if (has("divisor")) state.divisor_override = integer("divisor", text("divisor"));
    if (has("beta")) state.beta = real("beta", text("beta"));
    if (has("bias")) state.bias = real("bias", text("bias"));
    for (const key of ["seed", "at"]) if (has(key)) state[key] = integer(key, text(key));
    choice("ties", "ties", TIES);
    choice("duplicates", "duplicates", DUPLICATES);
    choice("back", "back", BACKS);
    list("cells", "cells", real);
    list("weight", "weight", real);
    list("indices", "indices", integer);
    list("g", "cotangent", real);
    checkCounts(state);
    return state;
  }

  function checkCounts(state) {
    const many = (n) => `${n} number${n === 1 ? "" : "s"}`;
    if (product(state.size) > MOST_CELLS) throw new Error(`size=${state.size.join("x")}: the page draws at most ${MOST_CELLS} cells`);
    for (const [key, cells, size] of [["cells", state.cells, state.size], ["indices", state.indices, state.size],
      ["weight", state.weight, state.kernel_size]])
      if (cells && cells.length !== product(size)) throw new Error(`${key}: has ${many(cells.length)}, must have ${product(size)}`);
  }

  function entries(key, text, rank) {
    const found = text.split("x");
    if (found.length !== 1 && found.length !== rank) throw new Error(`${key}=${text}: must have one entry, or ${rank}`);
    return found.length === 1 ? every(rank, found[0]) : found;
  }

  function integer(key, text, whole = text) {
    const more = whole === text ? "" : ", or one per axis such as 3x5";
    if (!/^-?\d{1,6}$/.test(text)) throw new Error(`${key}=${whole}: must be an integer${more}`);
    return Number(text) + 0;
  }

  function real(key, text) {
    const found = number(text);
    if (found === undefined) throw new Error(`${key}=${text}: must be a number, nan, inf or -inf`);
    return found;
  }

  function padding(text) {
    const found = text.split(":").map((part) => integer("padding", part));
    if (found.length > 2) throw new Error(`padding=${text}: must be a number, or before:after`);
    return found.length === 2 ? found : [found[0], found[0]];
  }

  function oneOf(key, text, allowed) {
    if (!allowed.includes(text)) throw new Error(`${key}=${text}: must be ${allowed.slice(0, -1).join(", ")} or ${allowed.at(-1)}`);
    return text;
  }

  return Object.freeze({
    POOLS, OTHERS, TIES, DUPLICATES, MOST_CELLS, changed, defaults, every, filled, first, flatOf, hasWeight, isIn, joined,
      number,
    numbered, parts, placeOf, product, read, same, settings, usualStride, withOp, withRank, written,
  });
})();
