/* The program of a question in PyTorch, in float64. Its pooling pads evenly and by at most half of the kernel: other padding is
done before the call where that gives the same windows. */
const codeTorch = (() => {
  "use strict";

  const { array, asWindows, call, dilation, duplicates, emptyMax, emptyMean, emptySum, evenPadding, lines, made } = program;
  const { past, refused, room, scalar, size, strange, ties, tuple, unless, when } = program;
  const FLOAT = ", dtype=torch.float64)[None, None]";
  const WHY = "pads evenly, by at most half of the kernel";
  const NO_PADDING = "PyTorch cannot say this: it pads both sides of an axis alike and by at most half of the kernel, and in " +
    "ceil mode cells padded before the call would add windows.";

  function of(q) {
    const x = array("x", "torch.tensor", q.cells, q.size, "torch", FLOAT);
    const start = ["import torch", "import torch.nn.functional as F", "", x];
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
  const stride = (q) => `stride=${size(q.stride)}`;
  const ceil = (q) => when(q.ceil_mode, "ceil_mode=True");
  const isHalf = (q) => q.padding.every(([lo, hi], axis) => lo === hi && lo <= Math.floor(q.kernel_size[axis] / 2));

  /** Whether there are as many windows if the cells are padded before the call: in ceil mode there may be more. */
  function keepsWindows(q) {
    const sizes = q.size.map((n, axis) => n + q.padding[axis][0] + q.padding[axis][1]);
    const cells = Array.from({ length: states.product(sizes) }, () => 0), padding = q.padding.map(() => [0, 0]);
    const pooled = windows.answer({ ...q, op: "max_pool", size: sizes, cells, padding, cotangent: null });
    return String(pooled.out) === String(q.out);
  }

  // --- pooling --------------------------------------------------------------------------------------------------------

  function whole(q, start) {
    const b = scalar(q.beta, "torch"), rest = `${axes(q)}, keepdim=True)`;
    const calls = {
      max_pool: `torch.amax(x, ${rest}`,
      min_pool: `torch.amin(x, ${rest}`,
      avg_pool: `torch.mean(x, ${rest}`,
      smooth_max_pool: `torch.logsumexp(${b} * x, ${rest} / ${b}`,
    };
    return made(lines(start, `y = ${calls[q.base]}`), ties(q, "PyTorch", "split"));
  }

  function adaptive(q, start) {
    const sign = q.isMin ? "-" : "", name = `F.adaptive_${q.base === "avg_pool" ? "avg" : "max"}_pool${q.rank}d`;
    return made(lines(start, `y = ${sign}${name}(${sign}x, ${size(q.out)})`), ties(q, "PyTorch", "first"));
  }

  function maximum(q, start) {
    const sign = q.isMin ? "-" : "", name = `${sign}F.max_pool${q.rank}d`;
    const pool = (padding) => `y = ${call(name, `${sign}x`, size(q.kernel_size), stride(q), padding, dilation(q), ceil(q))}`;
    const empty = emptyMax(q, "PyTorch"), remark = ties(q, "PyTorch", "first");
    if (isHalf(q)) return unless(empty, lines(start, pool(evenPadding(q))), remark);
    if (!keepsWindows(q)) return refused(NO_PADDING);
    const padded = `x = F.pad(x, ${pads(q.padding)}, value=${q.isMin ? "" : "-"}torch.inf)  # max_pool ${WHY}`;
    return unless(empty, lines(start, padded, pool(null)), remark);
  }

  function mean(q, start) {
    if (q.dilation.some((d, axis) => d > 1 && q.kernel_size[axis] > 1)) return refused("PyTorch's avg_pool has no dilation.");
    if (q.divisor_override !== null && q.rank === 1) return refused("PyTorch's avg_pool1d has no divisor_override.");
    const isBeyond = q.rank === 3 && q.kernel_size.some((k, axis) => k > q.size[axis]); // avg_pool3d refuses that
    const divisor = when(q.divisor_override !== null, `divisor_override=${q.divisor_override}`);
    const pool = (x, ...options) => call(`F.avg_pool${q.rank}d`, x, size(q.kernel_size), stride(q), ...options);
    const counted = when(!q.count_include_pad, "count_include_pad=False"), zeros = pads(q.padding);
    if (isHalf(q) && !isBeyond)
      return unless(emptyMean(q), lines(start, `y = ${pool("x", evenPadding(q), ceil(q), counted, divisor)}`));
    if (!keepsWindows(q)) return refused(NO_PADDING);
    if (q.count_include_pad || divisor !== null)
      return made(lines(start, `x = F.pad(x, ${zeros})  # avg_pool ${WHY}`, `y = ${pool("x", ceil(q), divisor)}`));
    const sums = `sums = ${pool(`F.pad(x, ${zeros})`, ceil(q))}  # avg_pool ${WHY}`;
    const counts = `counts = ${pool(`F.pad(torch.ones_like(x), ${zeros})`, ceil(q))}`;
    return unless(emptyMean(q), lines(start, sums, counts, "y = sums / counts"));
  }

  /** Windows by Tensor.unfold; what does not count is −∞ (∞ for a negative β). */
  function smooth(asked, start) {
    const q = asWindows(asked), says = "PyTorch has no smooth maximum";
    if (q === null) return refused(`${says}; it could be written with windows, but these bins are not of equal size.`);
    const absent = `value=${q.beta > 0 ? "-" : ""}torch.inf`, b = scalar(q.beta, "torch");
    const pad = (holds, padding, why) => when(holds, `x = F.pad(x, ${pads(padding)}${why}`);
    const padded = q.count_include_pad
      ? [pad(q.isPadded, q.padding, ")  # count as zeros"), pad(q.hasOverhang, past(q), `, ${absent})  # not counted`)]
      : [pad(q.isPadded || q.hasOverhang, room(q), `, ${absent})  # not counted`)];
    const reach = q.kernel_size.map((k, axis) => q.dilation[axis] * (k - 1) + 1);
    const unfolded = reach.map((n, axis) => `.unfold(${axis}, ${n}, ${q.stride[axis]})`).join("");
    const taps = q.isDilated ? `[..., ${q.dilation.map((d) => `::${d}`).join(", ")}]` : "";
    const result = [`windows = x[0, 0]${unfolded}${taps}`, `y = torch.logsumexp(${b} * windows, ${axes(q)}) / ${b}`];
    return unless(emptySum(q), lines(start, padded, result), `${says}; this is its definition.`);
  }

  // --- convolution and unpooling --------------------------------------------------------------------------------------

  const weight = (q) => array("weight", "torch.tensor", q.weight, q.kernel_size, "torch", FLOAT);
  const bias = (q) => when(q.bias !== null, `bias=torch.tensor([${scalar(q.bias, "torch")}], dtype=torch.float64)`);

  function conv(q, start) {
    const padded = when(q.isUneven, `x = F.pad(x, ${pads(q.padding)})  # conv pads evenly`);
    const padding = q.isUneven ? null : evenPadding(q);
    const result = call(`F.conv${q.rank}d`, "x", "weight", bias(q), stride(q), padding, dilation(q));
    return unless(strange(q, "PyTorch"), lines(start, weight(q), padded, `y = ${result}`));
  }

  function transposed(q, start) {
    const extra = when(q.output_padding.some(Boolean), `output_padding=${size(q.output_padding)}`);
    const padding = q.isUneven ? null : evenPadding(q);
    const result = call(`F.conv_transpose${q.rank}d`, "x", "weight", bias(q), stride(q), padding, extra, dilation(q));
    const kept = q.out.map((n, axis) => `${q.padding[axis][0]}:${q.padding[axis][0] + n}`).join(", ");
    const cut = when(q.isUneven, `y = y[..., ${kept}]  # conv_transpose takes away evenly`);
    return unless(strange(q, "PyTorch"), lines(start, weight(q), `y = ${result}`, cut));
  }

  function unpool(q, start) {
    if (q.isUneven) return refused("PyTorch's max_unpool takes the same padding on both sides of an axis.");
    if (q.indices.some((i) => i < 0)) return refused("PyTorch's max_unpool refuses the index −1, which drops a cell here.");
    const usual = q.size.map((n, axis) => (n - 1) * q.stride[axis] + q.kernel_size[axis] - 2 * q.padding[axis][0]);
    if (q.out.some((n, axis) => Math.abs(n - usual[axis]) >= q.stride[axis]))
      return refused("PyTorch's max_unpool takes an output_size that is less than a stride away from its own.");
    const indices = array("indices", "torch.tensor", q.indices, q.size, "torch", ")[None, None]");
    const output = when(q.output_size, `output_size=${tuple(q.out)}`);
    const result = call(`F.max_unpool${q.rank}d`, "x", "indices", size(q.kernel_size), stride(q), evenPadding(q), output);
    return unless(duplicates(q), lines(start, indices, `y = ${result}`));
  }

  return Object.freeze({ of });
})();
