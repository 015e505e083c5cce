/* The program of a question in PyTorch, in float64. Its pooling pads evenly and by at most half of the kernel: other padding is done
before the call where that gives the same windows. */
const codeTorch = (() => {
  "use strict";

  const { array, asWindows, call, dilation, duplicates, emptyMax, emptyMean, emptySum, evenPadding, lines, made, past, refused, room } = program;
  const { scalar, size, strange, ties, tuple, unless, when } = program;
  const NO_PADDING = "PyTorch cannot say this: it pads both sides of an axis alike and by at most half of the kernel, and in ceil mode " +
    "cells padded before the call would add windows.";

  function of(q) {
    const start = ["import torch", "import torch.nn.functional as F", "", array("x", "torch.tensor", q.cells, q.size, "torch", ", dtype=torch.float64)[None, None]")];
    if (q.kind === "global") return whole(q, start);
    if (q.base === "smooth_max_pool") return smooth(q, start);
    if (q.kind === "adaptive") return adaptive(q, start);
    if (q.base === "max_unpool") return unpool(q, start);
    if (states.hasWeight(q.op)) return q.base === "conv" ? conv(q, start) : transposed(q, start);
    return q.base === "avg_pool" ? mean(q, start) : maximum(q, start);
  }

  const axes = (q) => tuple(q.size.map((_, axis) => axis - q.rank));
  /** The pads of F.pad: the last axis first. */
  const pads = (padding) => tuple([...padding].reverse().flat());
  const isHalf = (q) => q.padding.every(([lo, hi], axis) => lo === hi && lo <= Math.floor(q.kernel_size[axis] / 2));
  const ceil = (q) => when(q.ceil_mode, "ceil_mode=True");

  function whole(q, start) {
    const b = scalar(q.beta, "torch"), rest = `${axes(q)}, keepdim=True)`;
    const calls = { max_pool: `torch.amax(x, ${rest}`, min_pool: `torch.amin(x, ${rest}`, avg_pool: `torch.mean(x, ${rest}`, smooth_max_pool: `torch.logsumexp(${b} * x, ${rest} / ${b}` };
    return made(lines(start, `y = ${calls[q.base]}`), ties(q, "PyTorch", "split"));
  }

  function adaptive(q, start) {
    const sizes = size(q.out), name = `F.adaptive_${q.base === "avg_pool" ? "avg" : "max"}_pool${q.rank}d`;
    return made(lines(start, `y = ${q.isMin ? `-${name}(-x, ${sizes})` : `${name}(x, ${sizes})`}`), ties(q, "PyTorch", "first"));
  }

  /** Whether there are as many windows if the cells are padded before the call: fewer start past the end then. */
  function keepsWindows(q) {
    const { out } = windows.answer({ ...q, op: "max_pool", size: q.size.map((n, a) => n + q.padding[a][0] + q.padding[a][1]), padding: q.padding.map(() => [0, 0]),
      cells: Array.from({ length: states.product(q.size.map((n, a) => n + q.padding[a][0] + q.padding[a][1])) }, () => 0), cotangent: null });
    return String(out) === String(q.out);
  }

  function maximum(q, start) {
    const sign = q.isMin ? "-" : "", name = `${sign}F.max_pool${q.rank}d`, x = `${sign}x`;
    const pool = (padding) => `y = ${call(name, x, size(q.kernel_size), `stride=${size(q.stride)}`, padding, dilation(q), ceil(q))}`;
    const empty = emptyMax(q, "PyTorch"), remark = ties(q, "PyTorch", "first");
    if (isHalf(q)) return unless(empty, lines(start, pool(evenPadding(q))), remark);
    if (!keepsWindows(q)) return refused(NO_PADDING);
    const padded = `x = F.pad(x, ${pads(q.padding)}, value=${q.isMin ? "" : "-"}torch.inf)  # max_pool pads evenly, by at most half of the kernel`;
    return unless(empty, lines(start, padded, pool(null)), remark);
  }

  function mean(q, start) {
    if (q.isDilated && q.dilation.some((d, axis) => d > 1 && q.kernel_size[axis] > 1)) return refused("PyTorch's avg_pool has no dilation.");
    if (q.divisor_override !== null && q.rank === 1) return refused("PyTorch's avg_pool1d has no divisor_override.");
    const isBeyond = q.rank === 3 && q.kernel_size.some((k, axis) => k > q.size[axis]);
    const divisor = when(q.divisor_override !== null, `divisor_override=${q.divisor_override}`), why = "  # avg_pool pads evenly, by at most half of the kernel";
    const pool = (x, ...options) => call(`F.avg_pool${q.rank}d`, x, size(q.kernel_size), `stride=${size(q.stride)}`, ...options);
    if (isHalf(q) && !isBeyond)
      return unless(emptyMean(q), lines(start, `y = ${pool("x", evenPadding(q), ceil(q), when(!q.count_include_pad, "count_include_pad=False"), divisor)}`));
    if (!keepsWindows(q)) return refused(NO_PADDING);
    if (q.count_include_pad || divisor !== null) return made(lines(start, `x = F.pad(x, ${pads(q.padding)})${why}`, `y = ${pool("x", ceil(q), divisor)}`));
    return unless(emptyMean(q), lines(start, `sums = ${pool(`F.pad(x, ${pads(q.padding)})`, ceil(q))}${why}`,
      `counts = ${pool(`F.pad(torch.ones_like(x), ${pads(q.padding)})`, ceil(q))}`, "y = sums / counts"));
  }

  /** Windows by Tensor.unfold; what does not count is −∞ (∞ for a negative β). */
  function smooth(asked, start) {
    const q = asWindows(asked);
    if (q === null) return refused("PyTorch has no smooth maximum; it could be written with windows, but these bins are not of equal size.");
    const absent = `value=${q.beta > 0 ? "-" : ""}torch.inf`, b = scalar(q.beta, "torch");
    const padded = q.count_include_pad
      ? [when(q.isPadded, `x = F.pad(x, ${pads(q.padding)})  # padded cells count as zeros`), when(q.hasOverhang, `x = F.pad(x, ${pads(past(q))}, ${absent})  # the overhang counts as nothing`)]
      : [when(q.isPadded || q.hasOverhang, `x = F.pad(x, ${pads(room(q))}, ${absent})  # not counted`)];
    const reach = q.kernel_size.map((k, axis) => q.dilation[axis] * (k - 1) + 1), every = q.isDilated ? `[..., ${q.dilation.map((d) => `::${d}`).join(", ")}]` : "";
    const unfolded = `windows = x[0, 0]${reach.map((n, axis) => `.unfold(${axis}, ${n}, ${q.stride[axis]})`).join("")}${every}`;
    return unless(emptySum(q), lines(start, padded, unfolded, `y = torch.logsumexp(${b} * windows, ${axes(q)}) / ${b}`), "PyTorch has no smooth maximum; this is its definition.");
  }

  const weight = (q) => array("weight", "torch.tensor", q.weight, q.kernel_size, "torch", ", dtype=torch.float64)[None, None]");
  const bias = (q) => when(q.bias !== null, `bias=torch.tensor([${scalar(q.bias, "torch")}], dtype=torch.float64)`);

  function conv(q, start) {
    const padded = when(q.isUneven, `x = F.pad(x, ${pads(q.padding)})  # conv pads evenly`), padding = q.isUneven ? null : evenPadding(q);
    return unless(strange(q, "PyTorch"), lines(start, weight(q), padded, `y = ${call(`F.conv${q.rank}d`, "x", "weight", bias(q), `stride=${size(q.stride)}`, padding, dilation(q))}`));
  }

  function transposed(q, start) {
    const extra = when(q.output_padding.some(Boolean), `output_padding=${size(q.output_padding)}`), padding = q.isUneven ? null : evenPadding(q);
    const cut = `y = y[..., ${q.out.map((n, axis) => `${q.padding[axis][0]}:${q.padding[axis][0] + n}`).join(", ")}]  # conv_transpose takes away evenly`;
    const result = `y = ${call(`F.conv_transpose${q.rank}d`, "x", "weight", bias(q), `stride=${size(q.stride)}`, padding, extra, dilation(q))}`;
    return unless(strange(q, "PyTorch"), lines(start, weight(q), result, when(q.isUneven, cut)));
  }

  function unpool(q, start) {
    if (q.isUneven) return refused("PyTorch's max_unpool takes the same padding on both sides of an axis.");
    if (q.indices.some((i) => i < 0)) return refused("PyTorch's max_unpool refuses the index −1, which drops a cell here.");
    const usual = q.size.map((n, axis) => (n - 1) * q.stride[axis] + q.kernel_size[axis] - 2 * q.padding[axis][0]);
    if (q.out.some((n, axis) => Math.abs(n - usual[axis]) >= q.stride[axis])) return refused("PyTorch's max_unpool takes an output_size that is less than a stride away from its own.");
    const indices = array("indices", "torch.tensor", q.indices, q.size, "torch", ")[None, None]"), output = when(q.output_size, `output_size=${tuple(q.out)}`);
    return unless(duplicates(q), lines(start, indices, `y = ${call(`F.max_unpool${q.rank}d`, "x", "indices", size(q.kernel_size), `stride=${size(q.stride)}`, evenPadding(q), output)}`));
  }

  return Object.freeze({ of });
})();
