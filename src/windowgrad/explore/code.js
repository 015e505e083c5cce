"use strict";
/* The settings of the page as programs: windowgrad, PyTorch, JAX, ONNX. Each is complete and ends with `y`.

code.of(state, answer) -> { windowgrad, torch, jax, onnx }, each { text, says, agrees }: the program or null, a remark or null, and
whether the program gives the values of the page. Where a framework has no such argument, what is equal is written instead (cells
padded before the call, a result cut after it); where nothing is, `says` says so. */
const code = (() => {
  const { every, numbered, parts, product, same } = states;
  const NUMPY = { nan: "np.nan", inf: "np.inf", "-inf": "-np.inf" };
  const TORCH = { nan: "torch.nan", inf: "torch.inf", "-inf": "-torch.inf" };
  const JAX = { nan: "jnp.nan", inf: "jnp.inf", "-inf": "-jnp.inf" };

  // --- Python's way of writing things ---------------------------------------------------------------------------------

  const tuple = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;
  const brackets = (list) => `[${list.join(", ")}]`;
  /** One number for all axes where they are the same. */
  const size = (list) => (same(list) ? String(list[0]) : tuple(list));
  const pairs = (list) => tuple(list.map(tuple));

  function scalar(value, words) {
    const text = numbered(value);
    return words[text] ?? (text === "-0" ? "-0.0" : text);
  }

  /** Nested lists, a row of a plane on each line. */
  function nested(cells, shape, words, indent = "    ") {
    const texts = cells.map((cell) => scalar(cell, words)), wide = Math.max(0, ...texts.map((text) => text.length));
    const rows = (list, axes, deep) => {
      if (axes.length === 1) return `[${list.map((text) => (shape.length > 1 ? text.padStart(wide) : text)).join(", ")}]`;
      const step = list.length / axes[0], inner = [];
      for (let i = 0; i < axes[0]; i++) inner.push(rows(list.slice(i * step, (i + 1) * step), axes.slice(1), `${deep} `));
      return `[${inner.join(`,\n${deep} `)}]`;
    };
    return shape.length === 1 ? rows(texts, shape, indent) : rows(texts, shape, indent);
  }

  const call = (name, ...list) => `${name}(${list.filter((each) => each !== null && each !== undefined && each !== "").join(", ")})`;

  // --- what is asked, in plain terms ----------------------------------------------------------------------------------

  /** The state with all sizes filled in, and what several frameworks need to know. */
  function question(state, answer) {
    const { base, windows: kind } = parts(state.op), rank = state.size.length, sliding = kind === "sliding";
    const asked = { ...state, base, kind, rank, out: answer.out, stride: state.stride ?? states.usualStride(state) };
    asked.hasEmpty = states.POOLS.includes(base) && answer.values.some((_, o) => answer.window(o).places.every((p) => p.kind !== "cell"));
    const places = answer.values.map((_, o) => answer.window(o).places);
    asked.noneCounts = places.some((list) => list.every((p) => p.kind === "past" || (p.kind === "padding" && !state.count_include_pad)));
    asked.isUneven = sliding && state.padding.some(([lo, hi]) => lo !== hi);
    asked.isPadded = sliding && state.padding.some((pad) => pad.some(Boolean));
    asked.isDilated = sliding && state.dilation.some((d, axis) => d > 1 && state.kernel_size[axis] > 1);
    /* How far the last window reaches past the padding. */
    asked.over = sliding && states.POOLS.includes(base)
      ? state.size.map((n, a) => Math.max(0, (answer.out[a] - 1) * asked.stride[a] + state.dilation[a] * (state.kernel_size[a] - 1) + 1
        - n - state.padding[a][0] - state.padding[a][1])) : every(rank, 0);
    asked.usedPadding = sliding ? asked.padding.map(([lo, hi], a) => [lo, hi + asked.over[a]]) : [];
    asked.hasStrange = [state.cells, state.weight ?? []].flat().some((cell) => !Number.isFinite(cell));
    return asked;
  }

  /** Bins of equal size are windows. */
  function evenBins(q) {
    const wanted = q.output_size.map((m, axis) => m ?? q.size[axis]);
    if (q.kind !== "adaptive" || wanted.some((m, axis) => q.size[axis] % m)) return null;
    const kernel = wanted.map((m, axis) => q.size[axis] / m);
    const none = every(q.rank, [0, 0]);
    return { ...q, kind: "sliding", kernel_size: kernel, stride: kernel, padding: none, usedPadding: none, over: every(q.rank, 0), dilation: every(q.rank, 1) };
  }

  const lines = (...list) => list.flat().filter((line) => line !== null).join("\n");
  const done = (text, says = null, agrees = true) => ({ text, says, agrees });
  const none = (says) => ({ text: null, says, agrees: false });

  // --- windowgrad -------------------------------------------------------------------------------------------------------

  function onWindowgrad(q) {
    const rank = q.rank, ones = every(rank, 1), spatial = q.size, head = ["import numpy as np", "import windowgrad as wg", ""];
    const axes = q.kind === "global" ? "" : `${rank}d`, name = `wg.${q.op}${q.kind === "global" ? `${rank}d` : axes}`;
    const x = (lead) => `x = np.array(${nested(q.cells, spatial, NUMPY, "              ")}, dtype=float)${lead}`;
    const option = (key, text, usual) => (String(text) === String(usual) ? null : `${key}=${text}`);
    const window = [
      option("stride", size(q.stride), size(states.usualStride(q))),
      option("padding", q.isUneven || !same(q.padding) ? (q.isUneven ? pairs(q.padding) : tuple(q.padding.map(([lo]) => lo))) : q.padding[0][0], "0"),
    ];
    const dilation = q.isDilated || q.dilation.some((d) => d > 1) ? option("dilation", size(q.dilation), "1") : null;
    const usualTies = q.kind === "global" ? "all" : "first";
    const rest = {
      max_pool: [option("ties", `"${q.ties}"`, `"${usualTies}"`)], min_pool: [option("ties", `"${q.ties}"`, `"${usualTies}"`)],
      avg_pool: [q.kind === "sliding" && !q.count_include_pad ? "count_include_pad=False" : null, q.kind === "sliding" && q.divisor_override !== null ? `divisor_override=${q.divisor_override}` : null],
      smooth_max_pool: [`beta=${scalar(q.beta, NUMPY)}`, q.kind === "sliding" && !q.count_include_pad ? "count_include_pad=False" : null],
    }[q.base];
    if (q.kind === "global") return done(lines(head, x(""), `y = ${call(name, "x", ...rest)}`));
    if (q.kind === "adaptive") return done(lines(head, x(""), `y = ${call(name, "x", bins(q.output_size), ...rest)}`));
    if (rest) return done(lines(head, x(""), `y = ${call(name, "x", `kernel_size=${size(q.kernel_size)}`, ...window, dilation, q.ceil_mode ? "ceil_mode=True" : null, ...rest)}`));
    if (q.base === "max_unpool") {
      const indices = `indices = np.array(${nested(q.indices, spatial, NUMPY, "                    ")})`;
      const given = [q.output_size && `output_size=${size(q.output_size)}`, q.duplicates === "last" ? null : `duplicates="${q.duplicates}"`];
      return done(lines(head, x(""), indices, `y = ${call(name, "x", "indices", `kernel_size=${size(q.kernel_size)}`, ...window, ...given)}`));
    }
    const weight = `weight = np.array(${nested(q.weight, q.kernel_size, NUMPY, "                   ")}, dtype=float)[None, None]`;
    const extra = q.base === "conv_transpose" && q.output_padding.some(Boolean) ? `output_padding=${size(q.output_padding)}` : null;
    const bias = q.bias === null ? null : `bias=np.array([${scalar(q.bias, NUMPY)}], dtype=float)`;
    void ones;
    return done(lines(head, x("[None]"), weight, `y = ${call(name, "x", "weight", bias, ...window, extra, dilation)}`));
  }

  const bins = (sizes) => (same(sizes) && sizes[0] !== null ? String(sizes[0]) : tuple(sizes.map((m) => m ?? "None")));

  // --- PyTorch ----------------------------------------------------------------------------------------------------------

  function onTorch(q) {
    const head = ["import torch", "import torch.nn.functional as F", ""];
    const x = `x = torch.tensor(${nested(q.cells, q.size, TORCH, "                 ")}, dtype=torch.float64)[None, None]`;
    const start = [...head, x];
    if (q.kind === "global") return globalTorch(q, start);
    if (q.base === "smooth_max_pool") return smoothTorch(q, start);
    if (q.kind === "adaptive") return adaptiveTorch(q, start);
    if (q.base === "max_unpool") return unpoolTorch(q, start);
    if (q.base === "conv") return convTorch(q, start);
    if (q.base === "conv_transpose") return transposedTorch(q, start);
    return q.base === "avg_pool" ? meanTorch(q, start) : maxTorch(q, start);
  }

  /** The pads of F.pad: the last axis first. */
  const torchPads = (padding) => tuple([...padding].reverse().flat());
  const fewPads = (q) => q.padding.every(([lo, hi], axis) => Math.max(lo, hi) <= Math.floor(q.kernel_size[axis] / 2));

  function tiesRemark(q, shares) {
    const asked = shares ? "split" : "first", usual = shares ? "shares it evenly" : "gives it to the first";
    return q.ties === asked ? null : `The values are the same. The gradient among equal cells is not: ties="${q.ties}" is asked for, PyTorch ${usual}.`;
  }

  function globalTorch(q, start) {
    const axes = tuple(every(q.rank, 0).map((_, axis) => axis - q.rank));
    const b = scalar(q.beta, TORCH);
    const made = {
      max_pool: `torch.amax(x, ${axes}, keepdim=True)`, min_pool: `torch.amin(x, ${axes}, keepdim=True)`,
      avg_pool: `torch.mean(x, ${axes}, keepdim=True)`, smooth_max_pool: `torch.logsumexp(${b} * x, ${axes}, keepdim=True) / ${b}`,
    }[q.base];
    return done(lines(start, `y = ${made}`), q.base in { max_pool: 1, min_pool: 1 } ? tiesRemark(q, true) : null);
  }

  function adaptiveTorch(q, start) {
    const sizes = q.output_size.map((m, axis) => m ?? q.size[axis]);
    const name = `F.adaptive_${q.base === "avg_pool" ? "avg" : "max"}_pool${q.rank}d`;
    const made = q.base === "min_pool" ? `-${call(name, "-x", size(sizes))}` : call(name, "x", size(sizes));
    return done(lines(start, `y = ${made}`), q.base === "avg_pool" ? null : tiesRemark(q, false));
  }

  /** Padding first keeps every window only where the last one does not start in the padding after. */
  function paddedOut(q) {
    return q.size.map((n, a) => {
      const whole = n + q.padding[a][0] + q.padding[a][1], room = whole - q.dilation[a] * (q.kernel_size[a] - 1) - 1;
      if (!q.ceil_mode) return Math.floor(room / q.stride[a]) + 1;
      const out = Math.ceil(room / q.stride[a]) + 1;
      return (out - 1) * q.stride[a] >= whole ? out - 1 : out;
    });
  }

  function maxTorch(q, start) {
    const isMin = q.base === "min_pool", sign = isMin ? "-" : "", name = `F.max_pool${q.rank}d`;
    const options = [`stride=${size(q.stride)}`, q.dilation.some((d) => d > 1) ? `dilation=${size(q.dilation)}` : null, q.ceil_mode ? "ceil_mode=True" : null];
    const empty = q.hasEmpty ? `A window without a real cell gives ${isMin ? "∞" : "−∞"} in PyTorch, and 0 here.` : null;
    const says = empty ?? tiesRemark(q, false), pads = q.isPadded ? `padding=${size(q.padding.map(([lo]) => lo))}` : null;
    if (!q.isUneven && fewPads(q))
      return done(lines(start, `y = ${sign}${call(name, `${sign}x`, size(q.kernel_size), options[0], pads, ...options.slice(1))}`), says, !empty);
    if (String(paddedOut(q)) !== String(q.out))
      return none(`PyTorch cannot say this: its padding is the same on both sides of an axis and at most half of the kernel, and in ceil mode cells padded before the call would add windows.`);
    const padded = `x = F.pad(x, ${torchPads(q.padding)}, value=${isMin ? "" : "-"}torch.inf)  # max_pool pads evenly, by at most half of the kernel`;
    return done(lines(start, padded, `y = ${sign}${call(name, `${sign}x`, size(q.kernel_size), ...options)}`), says, !empty);
  }

  function meanTorch(q, start) {
    const name = `F.avg_pool${q.rank}d`;
    if (q.isDilated) return none("PyTorch's avg_pool has no dilation.");
    if (q.divisor_override !== null && q.rank === 1) return none("PyTorch's avg_pool1d has no divisor_override.");
    const beyond = q.rank === 3 && q.kernel_size.some((k, axis) => k > q.size[axis]);
    const options = [size(q.kernel_size), `stride=${size(q.stride)}`, q.ceil_mode ? "ceil_mode=True" : null];
    const divisor = q.divisor_override === null ? null : `divisor_override=${q.divisor_override}`;
    const empty = q.hasEmpty && !q.count_include_pad && divisor === null ? "A window without a real cell gives 0 ÷ 0 in PyTorch, and 0 here." : null;
    if (!q.isUneven && fewPads(q) && !beyond) {
      const given = [q.isPadded ? `padding=${size(q.padding.map(([lo]) => lo))}` : null, options[2], q.count_include_pad ? null : "count_include_pad=False", divisor];
      return done(lines(start, `y = ${call(name, "x", options[0], options[1], ...given)}`), empty, !empty);
    }
    if (String(paddedOut(q)) !== String(q.out))
      return none("PyTorch cannot say this: its padding is the same on both sides of an axis and at most half of the kernel, and in ceil mode cells padded before the call would add windows.");
    const why = "  # avg_pool pads evenly, by at most half of the kernel", pads = torchPads(q.padding);
    if (q.count_include_pad || divisor !== null)
      return done(lines(start, `x = F.pad(x, ${pads})${why}`, `y = ${call(name, "x", ...options, divisor)}`));
    return done(lines(start, `sums = ${call(name, `F.pad(x, ${pads})`, ...options)}${why}`,
      `counts = ${call(name, `F.pad(torch.ones_like(x), ${pads})`, ...options)}`, "y = sums / counts"), empty, !empty);
  }

  /** Windows by Tensor.unfold; what does not count is −∞ (∞ for a negative β). */
  function smoothTorch(asked, start) {
    const q = asked.kind === "adaptive" ? evenBins(asked) : asked;
    if (q === null) return none("PyTorch has no smooth maximum, and its bins are not of equal size here, so that no windows are the same.");
    const absent = q.beta > 0 ? "-torch.inf" : "torch.inf", b = scalar(q.beta, TORCH), text = ["x = x[0, 0]"];
    const counted = q.kind === "sliding" && asked.kind !== "adaptive" && q.count_include_pad;
    const zeros = q.padding, past = q.over.map((n) => [0, n]);
    if (counted && q.isPadded) text.push(`x = F.pad(x, ${torchPads(zeros)})  # padded cells count as zeros`);
    if (counted && q.over.some(Boolean)) text.push(`x = F.pad(x, ${torchPads(past)}, value=${absent})  # the overhang counts as nothing`);
    if (!counted && q.usedPadding.some((pad) => pad.some(Boolean))) text.push(`x = F.pad(x, ${torchPads(q.usedPadding)}, value=${absent})  # absent`);
    const unfold = q.size.map((_, axis) => `.unfold(${axis}, ${q.dilation[axis] * (q.kernel_size[axis] - 1) + 1}, ${q.stride[axis]})`).join("");
    const every_ = q.isDilated ? `[..., ${q.dilation.map((d) => `::${d}`).join(", ")}]` : "";
    text.push(`windows = x${unfold}${every_}`);
    const axes = tuple(every(q.rank, 0).map((_, axis) => axis - q.rank));
    const empty = q.noneCounts && asked.kind === "sliding" ? "A window in which nothing counts gives an infinity by this program, and 0 here." : null;
    return done(lines(start, text, `y = torch.logsumexp(${b} * windows, ${axes}) / ${b}`), empty ?? "PyTorch has no smooth maximum; this is its definition.", !empty);
  }

  function convTorch(q, start) {
    const weight = `weight = torch.tensor(${nested(q.weight, q.kernel_size, TORCH, "                      ")}, dtype=torch.float64)[None, None]`;
    const bias = q.bias === null ? null : `bias=torch.tensor([${scalar(q.bias, TORCH)}], dtype=torch.float64)`;
    const options = [bias, `stride=${size(q.stride)}`, q.isPadded && !q.isUneven ? `padding=${size(q.padding.map(([lo]) => lo))}` : null, q.dilation.some((d) => d > 1) ? `dilation=${size(q.dilation)}` : null];
    const padded = q.isUneven ? `x = F.pad(x, ${torchPads(q.padding)})  # conv pads evenly` : null;
    return done(lines(start, weight, padded, `y = ${call(`F.conv${q.rank}d`, "x", "weight", ...options)}`), strange(q, "PyTorch"), !q.hasStrange);
  }

  const strange = (q, who) => (q.hasStrange ? `With NaN or infinities, ${who} may multiply zeros that are no cells, and give NaN; here a padded cell has no product.` : null);

  function transposedTorch(q, start) {
    const weight = `weight = torch.tensor(${nested(q.weight, q.kernel_size, TORCH, "                      ")}, dtype=torch.float64)[None, None]`;
    const bias = q.bias === null ? null : `bias=torch.tensor([${scalar(q.bias, TORCH)}], dtype=torch.float64)`;
    const options = [bias, `stride=${size(q.stride)}`, q.isPadded && !q.isUneven ? `padding=${size(q.padding.map(([lo]) => lo))}` : null,
      q.output_padding.some(Boolean) ? `output_padding=${size(q.output_padding)}` : null, q.dilation.some((d) => d > 1) ? `dilation=${size(q.dilation)}` : null];
    const cuts = q.out.map((n, axis) => `${q.padding[axis][0]}:${q.padding[axis][0] + n}`).join(", ");
    const cut = q.isUneven ? `y = y[..., ${cuts}]  # conv_transpose takes away evenly` : null;
    return done(lines(start, weight, `y = ${call(`F.conv_transpose${q.rank}d`, "x", "weight", ...options)}`, cut), strange(q, "PyTorch"), !q.hasStrange);
  }

  function unpoolTorch(q, start) {
    const wrong = unpoolRemark(q);
    if (q.isUneven) return none("PyTorch's max_unpool takes the same padding on both sides of an axis.");
    if (q.indices.some((i) => i < 0)) return none("PyTorch's max_unpool refuses the index −1, which drops a cell here.");
    const least = q.size.map((n, a) => (n - 1) * q.stride[a] + q.kernel_size[a] - 2 * q.padding[a][0]);
    if (q.out.some((n, a) => Math.abs(n - least[a]) >= q.stride[a])) return none("PyTorch's max_unpool takes an output_size that is less than a stride away from its own.");
    const indices = `indices = torch.tensor(${nested(q.indices, q.size, TORCH, "                       ")})[None, None]`;
    const options = [`stride=${size(q.stride)}`, q.isPadded ? `padding=${size(q.padding.map(([lo]) => lo))}` : null, q.output_size ? `output_size=${tuple(q.out)}` : null];
    return done(lines(start, indices, `y = ${call(`F.max_unpool${q.rank}d`, "x", "indices", size(q.kernel_size), ...options)}`), wrong, !wrong);
  }

  function unpoolRemark(q) {
    const kept = q.indices.filter((i) => i >= 0);
    return new Set(kept).size < kept.length ? `Two cells have the same index: which of them is kept is not said there; here ${q.duplicates === "last" ? "the last is" : "they are added"}.` : null;
  }

  // --- JAX --------------------------------------------------------------------------------------------------------------

  function onJax(q) {
    const head = ["import jax.numpy as jnp", "from jax import lax, nn", ""];
    const x = `x = jnp.array(${nested(q.cells, q.size, JAX, "              ")}, dtype=float)`;
    const start = [...head, x];
    if (q.kind === "global") return globalJax(q, start);
    if (q.base === "max_unpool") return unpoolJax(q, start);
    if (states.hasWeight(q.op)) return convJax(q, start);
    const windowed = q.kind === "adaptive" ? evenBins(q) : q;
    if (windowed === null) return none("JAX has no adaptive pooling, and these bins are not of equal size, so that no windows are the same.");
    return poolJax(windowed, start, q.kind === "adaptive" ? "JAX has no adaptive pooling; bins of equal size are windows." : null);
  }

  function globalJax(q, start) {
    const b = scalar(q.beta, JAX), plain = start.filter((line) => !line.startsWith("from jax") || q.base === "smooth_max_pool").map((line) => line.replace("lax, nn", "nn"));
    const made = { max_pool: "jnp.max(x, keepdims=True)", min_pool: "jnp.min(x, keepdims=True)", avg_pool: "jnp.mean(x, keepdims=True)", smooth_max_pool: `nn.logsumexp(${b} * x, keepdims=True) / ${b}` }[q.base];
    const shared = (q.base === "max_pool" || q.base === "min_pool") ? tiesRemark(q, true)?.replace("PyTorch", "JAX") ?? null : null;
    return done(lines(plain, `y = ${made}`), shared);
  }

  function poolJax(q, allStart, remark) {
    const start = allStart.map((line) => line.replace("lax, nn", "lax"));
    const window = (x, first, reduce, padding) => call("lax.reduce_window", x, first, reduce, tuple(q.kernel_size), tuple(q.stride), pairs(padding), q.isDilated ? `window_dilation=${tuple(q.dilation)}` : null);
    const over = q.over.some(Boolean) ? "ceil mode is padding after the last axis cell" : null, says = [remark, over && "reduce_window has no ceil mode; more padding after the cells is the same."].filter(Boolean).join(" ") || null;
    if (q.base === "max_pool" || q.base === "min_pool") {
      const isMin = q.base === "min_pool", empty = q.hasEmpty ? `A window without a real cell gives ${isMin ? "∞" : "−∞"} in JAX, and 0 here.` : null;
      return done(lines(start, `y = ${window("x", isMin ? "jnp.inf" : "-jnp.inf", isMin ? "lax.min" : "lax.max", q.usedPadding)}`), empty ?? tiesRemark(q, false)?.replace("PyTorch", "JAX") ?? says, !empty);
    }
    if (q.base === "smooth_max_pool") return smoothJax(q, start, window, remark);
    const sums = window("x", "0.0", "lax.add", q.usedPadding);
    if (q.divisor_override !== null) return done(lines(start, `y = ${sums} / ${q.divisor_override}`), says);
    if (q.count_include_pad && !q.over.some(Boolean)) return done(lines(start, `y = ${sums} / ${product(q.kernel_size)}`), says);
    const past = q.over.map((n) => [0, n]);
    const counts = q.count_include_pad ? window(q.isPadded ? `jnp.pad(jnp.ones_like(x), ${pairs(q.padding)}, constant_values=1)` : "jnp.ones_like(x)", "0.0", "lax.add", past)
      : window("jnp.ones_like(x)", "0.0", "lax.add", q.usedPadding);
    const empty = q.hasEmpty && !q.count_include_pad ? "A window without a real cell gives 0 ÷ 0 by this program, and 0 here." : null;
    return done(lines(start, `sums = ${sums}`, `counts = ${counts}`, "y = sums / counts"), empty ?? says, !empty);
  }

  function smoothJax(q, start, window, remark) {
    const b = scalar(q.beta, JAX), padded = q.count_include_pad && q.isPadded && q.kind === "sliding" && !remark;
    const zeros = padded ? `x = jnp.pad(x, ${pairs(q.padding)})  # padded cells count as zeros` : null;
    const empty = q.noneCounts && !remark ? "A window in which nothing counts gives an infinity by this program, and 0 here." : null;
    const left = padded ? q.over.map((n) => [0, n]) : q.usedPadding;
    return done(lines(start, zeros, `y = ${window(`${b} * x`, "-jnp.inf", "jnp.logaddexp", left)} / ${b}`), empty ?? "JAX has no smooth maximum; this is its definition.", !empty);
  }

  function convJax(q, allStart) {
    const start = allStart.map((line) => line.replace("lax, nn", "lax")), letters = "DHW".slice(3 - q.rank);
    start[start.length - 1] += "[None, None]";
    const weight = `weight = jnp.array(${nested(q.weight, q.kernel_size, JAX, "                   ")}, dtype=float)[None, None]`;
    const bias = q.bias === null ? "" : ` + ${scalar(q.bias, JAX)}`, dilation = q.dilation.some((d) => d > 1) ? `rhs_dilation=${tuple(q.dilation)}` : null;
    if (q.base === "conv")
      return done(lines(start, weight, `y = ${call("lax.conv_general_dilated", "x", "weight", tuple(q.stride), pairs(q.padding), dilation)}${bias}`), strange(q, "JAX"), !q.hasStrange);
    const reach = q.kernel_size.map((k, axis) => q.dilation[axis] * (k - 1));
    const pads = reach.map((r, axis) => [r - q.padding[axis][0], r - q.padding[axis][1] + q.output_padding[axis]]);
    const numbers = `dimension_numbers=("NC${letters}", "OI${letters}", "NC${letters}")`;
    const note = "  # its padding is that of the input spread out";
    return done(lines(start, weight, `pads = ${pairs(pads)}${note}`, `y = ${call("lax.conv_transpose", "x", "weight", tuple(q.stride), "pads", dilation, numbers, "transpose_kernel=True")}${bias}`), strange(q, "JAX"), !q.hasStrange);
  }

  function unpoolJax(q, allStart) {
    const start = allStart.filter((line) => !line.startsWith("from jax")), many = product(q.out);
    const indices = `indices = jnp.array(${nested(q.indices, q.size, JAX, "                    ")})`;
    const wrong = q.duplicates === "last" ? unpoolRemark(q) : null;
    const dropped = q.indices.some((i) => i < 0) ? `indices = jnp.where(indices < 0, ${many}, indices)  # −1 would be the last cell` : null;
    return done(lines(start, indices, dropped, `y = jnp.zeros(${many}).at[indices].${q.duplicates === "add" ? "add" : "set"}(x, mode="drop").reshape(${tuple(q.out)})`), wrong ?? "JAX has no unpooling; this is its definition.", !wrong);
  }

  // --- ONNX -------------------------------------------------------------------------------------------------------------

  function onOnnx(q) {
    const windowed = q.kind === "adaptive" ? evenBins(q) : q;
    if (windowed === null) return none("ONNX has no adaptive pooling, and these bins are not of equal size, so that no windows are the same.");
    if (q.base === "smooth_max_pool" && q.kind !== "global") return none("ONNX has no smooth maximum over windows.");
    if (q.base === "avg_pool" && q.divisor_override !== null && q.kind === "sliding") return none("ONNX's AveragePool has no divisor.");
    const made = onnxBody(windowed);
    if (made.none) return none(made.none);
    const says = made.says ?? (q.kind === "adaptive" ? "ONNX has no adaptive pooling; bins of equal size are windows." : null);
    return done(onnxProgram(q, made.inputs ?? {}, made.body), says, made.agrees ?? true);
  }

  /** The nodes in the language of onnx.parser, and what goes in besides x. */
  function onnxBody(q) {
    const isWinner = q.base === "max_pool" || q.base === "min_pool", b = q.beta, isMin = q.base === "min_pool";
    if (q.kind === "global") {
      if (isMin) return { body: ["y = ReduceMin<keepdims = 1>(x, axes)"], inputs: { axes: axesOf(q) } };
      if (q.base === "smooth_max_pool") return { body: ["b = Mul(x, beta)", "s = ReduceLogSumExp<keepdims = 1>(b, axes)", "y = Div(s, beta)"], inputs: { beta: `np.float32(${scalar(b, NUMPY)})`, axes: axesOf(q) } };
      return { ...special(q), body: [`y = ${q.base === "avg_pool" ? "GlobalAveragePool" : "GlobalMaxPool"}(x)`] };
    }
    const given = [`kernel_shape = ${brackets(q.kernel_size)}`, `strides = ${brackets(q.stride)}`];
    if (q.isPadded) given.push(`pads = ${brackets([0, 1].flatMap((side) => q.padding.map((pad) => pad[side])))}`);
    if (q.dilation.some((d) => d > 1)) given.push(`dilations = ${brackets(q.dilation)}`);
    if (q.ceil_mode && states.POOLS.includes(q.base)) given.push("ceil_mode = 1");
    if (q.base === "avg_pool" && q.count_include_pad && q.isPadded) given.push("count_include_pad = 1");
    if (states.hasWeight(q.op)) return onnxConv(q, given);
    if (q.base === "max_unpool") return onnxUnpool(q, given);
    const attributes = `<${given.join(", ")}>`;
    if (q.padding.some((pad, axis) => Math.max(...pad) >= q.kernel_size[axis])) return { none: "ONNX Runtime refuses a padding that is not smaller than the kernel." };
    if (!isWinner) return { ...meanRemark(q), body: [`y = AveragePool${attributes}(x)`] };
    return { ...special(q), body: isMin ? ["n = Neg(x)", `m = MaxPool${attributes}(n)`, "y = Neg(m)"] : [`y = MaxPool${attributes}(x)`] };
  }

  const axesOf = (q) => `np.array([${every(q.rank, 0).map((_, axis) => axis + 2).join(", ")}])`;

  function special(q) {
    if (q.base === "avg_pool") return {};
    if (q.hasEmpty) return { says: "A window without a real cell gives the least finite number in ONNX Runtime, and 0 here.", agrees: false };
    return q.hasStrange ? { says: "ONNX Runtime drops NaN in a maximum, and starts it from the least finite number.", agrees: false } : {};
  }

  const meanRemark = (q) => (q.hasEmpty && !q.count_include_pad ? { says: "A window without a real cell is 0 here; ONNX does not say what it is.", agrees: false } : {});

  function onnxConv(q, given) {
    const inputs = { weight: `np.array(${nested(q.weight, q.kernel_size, NUMPY, "                   ")}, np.float32)[None, None]` };
    if (q.bias !== null) inputs.bias = `np.array([${scalar(q.bias, NUMPY)}], np.float32)`;
    const name = q.base === "conv" ? "Conv" : "ConvTranspose";
    if (q.output_padding.some(Boolean) && name === "ConvTranspose") given.push(`output_padding = ${brackets(q.output_padding)}`);
    if (name === "ConvTranspose" && q.output_padding.some((e, axis) => e && e >= q.stride[axis])) return { none: "ONNX Runtime refuses an output_padding that is not smaller than the stride." };
    return { body: [`y = ${name}<${given.join(", ")}>(${["x", ...Object.keys(inputs)].join(", ")})`], inputs, says: strange(q, "ONNX Runtime"), agrees: !q.hasStrange };
  }

  function onnxUnpool(q, given) {
    const wrong = unpoolRemark(q);
    if (q.indices.some((i) => i < 0)) return { none: "ONNX's MaxUnpool has no index −1, which drops a cell here." };
    const inputs = { indices: `np.array(${nested(q.indices, q.size, NUMPY, "                    ")})[None, None]`, shape: `np.array(${brackets([1, 1, ...q.out])})` };
    return { body: [`y = MaxUnpool<${given.join(", ")}>(x, indices, shape)`], inputs, says: wrong, agrees: !wrong };
  }

  function onnxProgram(q, inputs, body) {
    const shape = (sizes) => `[${[1, 1, ...sizes].join(", ")}]`;
    const kinds = { weight: `float${shape(q.kernel_size)}`, bias: "float[1]", beta: "float", axes: `int64[${q.rank}]`, indices: `int64${shape(q.size)}`, shape: `int64[${q.rank + 2}]` };
    const takes = [`float${shape(q.size)} x`, ...Object.keys(inputs).map((name) => `${kinds[name]} ${name}`)].join(", ");
    return lines("import numpy as np", "import onnxruntime", "from onnx import parser", "", 'model = parser.parse_model("""',
      '<ir_version: 10, opset_import: ["": 21]>', `explored (${takes}) => (float${shape(q.out)} y) {`, body.map((node) => `    ${node}`), '}""")', "",
      `x = np.array(${nested(q.cells, q.size, NUMPY, "              ")}, np.float32)[None, None]`, Object.entries(inputs).map(([name, text]) => `${name} = ${text}`),
      "session = onnxruntime.InferenceSession(model.SerializeToString())", `y = session.run(None, {${["x", ...Object.keys(inputs)].map((name) => `"${name}": ${name}`).join(", ")}})[0]`);
  }

  function of(state, answer) {
    const q = question(state, answer);
    return { windowgrad: onWindowgrad(q), torch: onTorch(q), jax: onJax(q), onnx: onOnnx(q) };
  }

  return Object.freeze({ of });
})();
