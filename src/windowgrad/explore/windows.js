/* The arithmetic of the window explorer: what windowgrad.spec computes, over JavaScript's numbers, in the same order.

A plain script without DOM. It defines one constant, `windows`, with one function:

windows.answer(state) -> answer, or an Error whose message is that of the library, without the call in brackets.

state: the arguments of the library by their names. What is left out, or undefined, has the library's default.
  op                 "max_pool", "min_pool", "avg_pool", "smooth_max_pool", each also with "adaptive_" or "global_" before it,
                     "conv", "conv_transpose", "max_unpool"
  size               [n, …], 1 to 3 axes: the shape of the input, which has neither batch nor channels
  cells              the input in row-major order
  kernel_size        [k, …]; for conv and conv_transpose the window of the weight
  stride             [s, …], or null: kernel_size (conv and conv_transpose: 1)
  padding            [[before, after], …]
  dilation           [d, …] (max_unpool has none)
  ceil_mode          bool (sliding pooling)
  output_size        [m | null, …] (adaptive_), [m, …] or null (max_unpool)
  ties, empty        "first" | "all" | "split", "zero" | "raise" (max and min; ties is "all" by default for global_)
  count_include_pad  bool (sliding mean and smooth maximum)
  divisor_override   an integer or null (avg_pool)
  beta               a number other than 0 (smooth maximum)
  weight, bias       numbers in row-major order; a number or null (conv, conv_transpose)
  output_padding     [e, …] (conv_transpose)
  indices            integers, one per cell (max_unpool)
  duplicates         "last" | "add" (max_unpool)
  cotangent          one number per output, or null: all ones
What an operator does not have is not looked at.

answer:
  out        the shape of the output
  values     its cells in row-major order
  indices    the flat index of each window's first winner, -1 for an empty window; null if the operator is not max or min
  formula    for each axis, how its size came about, as text
  window(o)  for the flat index of an output:
    at       its index, one number per axis
    places   all that the window covers, in row-major order (of transposed convolution: the cells that add to the output,
             in the order in which they are added; of unpooling: the cells with this index):
      at       the index of the place: below 0 or past the end for what is not a cell
      kind     "cell", "padding", or "past": beyond the padding, the overhang of ceil mode, which counts as nothing
      flat     the flat index of the cell, else null
      tap      the position in the kernel; null for adaptive, global and unpooling
      value    the cell; 0 for padding that counts as zero; null for what is absent
      weight   the weight that multiplies it (conv and conv_transpose), else null
      share    what it counts for in the mean (1/divisor) or in the softmax (β·x); null for what is absent and elsewhere
    winners  the flat cells that get the gradient (max and min by `ties`; unpooling: those that arrive); else []
    divisor  of a mean, else null
    value    the output
    words    the arithmetic with its numbers (6 digits each), as text
  gives(o)   where a gradient of 1 at output o goes:
    { x: [{ flat, value }], weight: [{ tap, flat, value }] | null, bias: 1 | null, beta: number | null }
  back       the vector-Jacobian product with `cotangent`, each in row-major order:
    { x: [numbers], weight: [numbers] | null, bias: number | null, beta: number | null }

Limits, so that nothing hangs: integers up to 10^9, 65,536 cells, outputs and cells of a kernel, 1,048,576 places in all
windows together. Beyond, and for lists of a wrong length, the Error says so in words of its own.
*/
const windows = (() => {
  "use strict";

  const LARGEST = 1e9; // products of two such integers are exact
  const MOST_CELLS = 65536;
  const MOST_PLACES = 1048576;

  // --- arguments: the same checks as the library's, in the same order and words ------------------------------------

  function fail(message) {
    throw new Error(message);
  }

  const tuple = (entries) => `(${entries.join(", ")}${entries.length === 1 ? "," : ""})`;

  function asInt(name, value, least, where = "") {
    if (!Number.isInteger(value)) fail(`${name}=${value}${where}: must be an integer, not float`);
    if (Math.abs(value) > LARGEST) fail(`${name}=${value}${where}: too large here, at most ${LARGEST}`);
    if (value < least) fail(`${name}=${value}${where}: ${least ? `must be at least ${least}` : "must not be negative"}`);
    return value;
  }

  function perAxis(name, value, rank) {
    if (!Array.isArray(value)) fail(`${name}: must be a list with one entry per axis`);
    const count = (word, words, n) => `${n} ${n === 1 ? word : words}`;
    if (value.length !== rank) {
      fail(`${name}=${tuple(value)}: has ${count("entry", "entries", value.length)} for ${count("axis", "axes", rank)}`);
    }
    return value;
  }

  function ints(name, value, rank, least = 1) {
    return perAxis(name, value, rank).map((entry, axis) => asInt(name, entry, least, ` on axis ${axis}`));
  }

  function pairs(name, value, rank) {
    return perAxis(name, value, rank).map((pair, axis) => {
      for (const side of pair) {
        asInt(name, side, -LARGEST, ` on axis ${axis}`);
        if (side < 0) fail(`${name}=${tuple(pair)} on axis ${axis}: must not be negative`);
      }
      return pair;
    });
  }

  function oneOf(name, value, allowed) {
    if (!allowed.includes(value)) fail(`${name}='${value}': must be one of ${allowed.map((each) => `'${each}'`).join(", ")}`);
  }

  function numbers(name, value, count) {
    if (!Array.isArray(value) || value.length !== count) fail(`${name}: must be a list of ${count} numbers`);
    return value;
  }

  function refuseLarge(what, count, most) {
    if (count > most) fail(`${count} ${what}: too many here, at most ${most}`);
  }

  // --- places and indices ------------------------------------------------------------------------------------------

  const prod = (list) => list.reduce((a, b) => a * b, 1);
  const indexOf = (place, shape) => place.reduce((index, at, axis) => index * shape[axis] + at, 0);

  function placeOf(index, shape) {
    const place = [];
    for (const n of [...shape].reverse()) {
      place.unshift(index % n);
      index = Math.floor(index / n);
    }
    return place;
  }

  /* One entry of each list, in every way, the last list fastest: row-major order. */
  function product(lists) {
    return lists.reduce((found, list) => found.flatMap((before) => list.map((entry) => [...before, entry])), [[]]);
  }

  // --- geometry: which places an output covers ---------------------------------------------------------------------

  /* Windows of `kernel` cells, `dilation` apart, every `stride` cells of the padded input. */
  function sliding(s, rank) {
    const kernel = ints("kernel_size", s.kernel_size, rank);
    const stride = s.stride === null ? kernel : ints("stride", s.stride, rank);
    const padding = pairs("padding", s.padding ?? Array(rank).fill([0, 0]), rank);
    const dilation = ints("dilation", s.dilation ?? Array(rank).fill(1), rank);

    function outputs(axis, n) {
      const [k, step, d, [lo, hi]] = [kernel[axis], stride[axis], dilation[axis], padding[axis]];
      const room = n + lo + hi - d * (k - 1) - 1;
      if (room < 0) {
        fail(
          `kernel_size=${k} on axis ${axis}: the window covers ${d * (k - 1) + 1} cells, the padded input has ` +
            `${n + lo + hi} (size ${n}, padding ${tuple(padding[axis])}, dilation ${d})`,
        );
      }
      const inside = `(${n} + ${lo} + ${hi} − ${d}·(${k} − 1) − 1) / ${step}`;
      if (!s.ceil_mode) {
        const out = Math.floor(room / step) + 1;
        return { out, formula: `⌊${inside}⌋ + 1 = ${out}` };
      }
      const out = Math.ceil(room / step) + 1;
      const start = (out - 1) * step;
      if (start < n + lo) return { out, formula: `⌈${inside}⌉ + 1 = ${out}` };
      const why = `the last window would start at ${start} of the padded input, past its ${n} + ${lo} cells`;
      return { out: out - 1, formula: `⌈${inside}⌉ + 1 = ${out}, less 1 = ${out - 1}: ${why}` };
    }

    return {
      kernel,
      hasTaps: true,
      outputs,
      cover: (axis, i) => {
        const start = i * stride[axis] - padding[axis][0];
        return Array.from({ length: kernel[axis] }, (_, tap) => ({ at: start + tap * dilation[axis], tap }));
      },
      covered: (axis, n, out) => out * kernel[axis],
      end: (axis, n) => n + padding[axis][1],
    };
  }

  /* Bin i of m over n cells is [⌊i·n/m⌋, ⌈(i+1)·n/m⌉); null keeps n. Global is one bin. */
  function bins(wanted, formula) {
    const count = (axis, n) => wanted[axis] ?? n;
    return {
      hasTaps: false,
      outputs: (axis, n) => ({ out: count(axis, n), formula: formula(n, wanted[axis]) }),
      cover: (axis, i, n) => {
        const m = count(axis, n);
        const [start, stop] = [Math.floor((i * n) / m), Math.ceil(((i + 1) * n) / m)];
        return Array.from({ length: stop - start }, (_, j) => ({ at: start + j }));
      },
      covered: (axis, n, out) => n + 2 * out,
      end: (axis, n) => n,
    };
  }

  function adaptive(s, rank) {
    const wanted = perAxis("output_size", s.output_size, rank);
    wanted.forEach((m, axis) => m === null || asInt("output_size", m, 1, ` on axis ${axis}`));
    return bins(wanted, (n, m) => {
      const kept = m === null ? "None keeps the size: " : "";
      return `${kept}${m ?? n} bins, [⌊i·${n}/${m ?? n}⌋, ⌈(i + 1)·${n}/${m ?? n}⌉)`;
    });
  }

  function everything(s, rank) {
    return bins(Array(rank).fill(1), (n) => `1: all ${n} cells`);
  }

  /* All that output `at` covers. */
  function placesOf(geometry, at, size, x) {
    return product(at.map((i, axis) => geometry.cover(axis, i, size[axis]))).map((taps) => {
      const place = taps.map((tap) => tap.at);
      const isCell = place.every((p, axis) => 0 <= p && p < size[axis]);
      const isPast = place.some((p, axis) => p >= geometry.end(axis, size[axis]));
      const flat = isCell ? indexOf(place, size) : null;
      return {
        at: place,
        kind: isCell ? "cell" : isPast ? "past" : "padding",
        flat,
        tap: geometry.hasTaps ? taps.map((tap) => tap.tap) : null,
        value: isCell ? x[flat] : null,
        weight: null,
        share: null,
      };
    });
  }

  // --- maximum and minimum -----------------------------------------------------------------------------------------

  /* NaN wins over every number and ties with NaN; −0 and 0 tie. */
  const greater = (a, b) => (a !== a || b !== b ? a !== a && b === b : a > b);
  const less = (a, b) => (a !== a || b !== b ? a !== a && b === b : a < b);

  function selection(wins, name) {
    return (s, places) => {
      const cells = places.filter((place) => place.kind === "cell");
      if (!cells.length) return { value: 0, index: -1, winners: [], pull: () => [], words: "no cell: 0" };
      let best = cells[0];
      for (const cell of cells) {
        if (wins(cell.value, best.value)) best = cell; // the tie rule is this strict comparison, and nothing else
      }
      const equal = cells.filter((cell) => !wins(best.value, cell.value));
      const winners = (s.ties === "first" ? [best] : equal).map((cell) => cell.flat);
      const among = equal.length > 1 ? `, ${s.ties === "first" ? "the first of " : ""}${equal.length} equal cells` : "";
      return {
        value: best.value,
        index: best.flat,
        winners,
        pull: (g) => winners.map((flat) => [flat, s.ties === "split" ? g / winners.length : g]),
        words: `${name}(${cells.map((cell) => cell.value).join(", ")}) = ${best.value}${among}`,
      };
    };
  }

  // --- pooling -----------------------------------------------------------------------------------------------------

  const REDUCTIONS = { max_pool: selection(greater, "max"), min_pool: selection(less, "min") };
  const FAMILIES = { adaptive_: adaptive, global_: everything, "": sliding };

  function pooling(s, geometry, reduce) {
    oneOf("ties", s.ties, ["first", "all", "split"]);
    oneOf("empty", s.empty, ["zero", "raise"]);
    const size = s.size.map((n, axis) => asInt("size", n, 1, ` on axis ${axis}`));
    const axes = size.map((n, axis) => geometry.outputs(axis, n));
    const out = axes.map((axis) => axis.out);
    refuseLarge("cells", prod(size), MOST_CELLS);
    refuseLarge("outputs", prod(out), MOST_CELLS);
    refuseLarge("places in windows", prod(size.map((n, axis) => geometry.covered(axis, n, out[axis]))), MOST_PLACES);
    const x = numbers("cells", s.cells, prod(size));
    const look = (o) => {
      const at = placeOf(o, out);
      const places = placesOf(geometry, at, size, x);
      return { at, places, ...reduce(s, places) };
    };
    const all = Array.from({ length: prod(out) }, (_, o) => look(o));
    const g = s.cotangent === null ? all.map(() => 1) : numbers("cotangent", s.cotangent, all.length);
    const gx = x.map(() => 0);
    all.forEach((window, o) => window.pull(g[o]).forEach(([flat, part]) => (gx[flat] += part)));
    return {
      out,
      values: all.map((window) => window.value),
      indices: all.map((window) => window.index),
      formula: axes.map((axis) => axis.formula),
      window: (o) => {
        const { at, places, winners, value, words } = look(o);
        return { at, places, winners, divisor: null, value, words };
      },
      gives: (o) => ({ x: look(o).pull(1).map(([flat, value]) => ({ flat, value })), weight: null, bias: null, beta: null }),
      back: { x: gx, weight: null, bias: null, beta: null },
    };
  }

  function answer(state) {
    const family = ["adaptive_", "global_"].find((prefix) => state.op.startsWith(prefix)) ?? "";
    const reduce = REDUCTIONS[state.op.slice(family.length)] ?? fail(`op='${state.op}': not known here`);
    const ties = family === "global_" ? "all" : "first";
    const s = { stride: null, ties, empty: "zero", cotangent: null, ...state };
    return pooling(s, FAMILIES[family](s, s.size.length), reduce);
  }

  return Object.freeze({ answer });
})();
