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
    words    the arithmetic with its numbers, as text: 6 digits of each (≈ if that shortens the result), at most 12 terms
  gives(o)   where a gradient of 1 at output o goes:
    { x: [{ flat, value }], weight: [{ tap, flat, value }] | null, bias: 1 | null, beta: number | null }
  back       the vector-Jacobian product with `cotangent`, each in row-major order:
    { x: [numbers], weight: [numbers] | null, bias: number | null, beta: number | null }

Limits, so that nothing hangs: integers up to 2^26, up to 65,536 cells, outputs and cells of a kernel, and 262,144 places in
all windows together. Beyond, and for lists of a wrong length, the Error says so in words of its own.
*/
const windows = (() => {
  "use strict";

  const LARGEST = 2 ** 26; // sums of products of two such integers are exact
  const MOST_CELLS = 2 ** 16;
  const MOST_PLACES = 2 ** 18;

  // --- arguments: the checks of the library, in its order and words ------------------------------------------------

  function fail(message) {
    throw new Error(message);
  }

  const tuple = (entries) => `(${entries.join(", ")}${entries.length === 1 ? "," : ""})`;
  const counted = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;

  /* `value` if it is an integer and at least `least`; `shown` is how the message writes it. */
  function asInt(name, value, least, where = "", shown = python(value)) {
    if (!Number.isInteger(value)) fail(`${name}=${shown}${where}: must be an integer, not ${kindOf(value)}`);
    if (Math.abs(value) > LARGEST) fail(`${name}=${shown}${where}: too large for the explorer, at most ${LARGEST}`);
    if (value < least) fail(`${name}=${shown}${where}: ${least ? `must be at least ${least}` : "must not be negative"}`);
    return value;
  }

  /* A value, and its type, as Python writes them. */
  function python(value) {
    if (typeof value === "string") return `'${value}'`;
    if (Object.is(value, -0)) return "-0.0";
    return { Infinity: "inf", "-Infinity": "-inf", NaN: "nan", null: "None" }[value] ?? `${value}`;
  }

  const kindOf = (value) => ({ string: "str", number: "float", object: "NoneType" })[typeof value] ?? typeof value;

  function perAxis(name, value, rank) {
    if (!Array.isArray(value)) fail(`${name}: must be a list with one entry per axis`);
    if (value.length !== rank) {
      const has = counted(value.length, "entry", "entries");
      fail(`${name}=${tuple(value)}: has ${has} for ${counted(rank, "axis", "axes")}`);
    }
    return value;
  }

  function ints(name, value, rank, least = 1) {
    return perAxis(name, value, rank).map((entry, axis) => asInt(name, entry, least, ` on axis ${axis}`));
  }

  function pairs(name, value, rank) {
    return perAxis(name, value, rank).map((pair, axis) => {
      if (!Array.isArray(pair) || pair.length !== 2) fail(`${name} on axis ${axis}: must be a (before, after) pair`);
      return pair.map((side) => asInt(name, side, 0, ` on axis ${axis}`, tuple(pair)));
    });
  }

  function oneOf(name, value, allowed) {
    if (!allowed.includes(value)) fail(`${name}=${python(value)}: must be one of ${allowed.map(python).join(", ")}`);
  }

  function numbers(name, value, count) {
    if (!Array.isArray(value) || value.length !== count || value.some((each) => typeof each !== "number")) {
      fail(`${name}: must be a list of ${counted(count, "number")}`);
    }
    return value;
  }

  function refuseMany(count, what, most) {
    if (count > most) fail(`${count} ${what}: too many for the explorer, at most ${most}`);
  }

  function sizes(s) {
    const size = s.size.map((n, axis) => asInt("size", n, 1, ` on axis ${axis}`));
    refuseMany(prod(size), "cells", MOST_CELLS);
    return size;
  }

  // --- places and indices ------------------------------------------------------------------------------------------

  const prod = (list) => list.reduce((a, b) => a * b, 1);
  const range = (count) => Array.from({ length: count }, (_, i) => i);
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
  //
  // outputs(axis, n)    how many outputs n cells have, and the formula
  // cover(axis, i, n)   what output i covers: { at, tap }, in order
  // most(axis, n, out)  at least as many places as all outputs cover together
  // end(axis, n)        where the padding ends

  /* Windows of `kernel` cells, `dilation` apart, every `stride` cells of the padded input. */
  function sliding(s, rank) {
    const kernel = ints("kernel_size", s.kernel_size, rank);
    const stride = s.stride === null ? kernel : ints("stride", s.stride, rank);
    const padding = pairs("padding", s.padding ?? kernel.map(() => [0, 0]), rank);
    const dilation = ints("dilation", s.dilation ?? kernel.map(() => 1), rank);

    function outputs(axis, n) {
      const [k, step, d, [lo, hi]] = [kernel[axis], stride[axis], dilation[axis], padding[axis]];
      const room = n + lo + hi - d * (k - 1) - 1;
      if (room < 0) {
        const has = `the padded input has ${n + lo + hi} (size ${n}, padding ${tuple(padding[axis])}, dilation ${d})`;
        fail(`kernel_size=${k} on axis ${axis}: the window covers ${d * (k - 1) + 1} cells, ${has}`);
      }
      const steps = `(${n} + ${lo} + ${hi} − ${d}·(${k} − 1) − 1) / ${step}`;
      const [floor, ceil] = [Math.floor(room / step) + 1, Math.ceil(room / step) + 1];
      if (!s.ceil_mode) return { out: floor, formula: `⌊${steps}⌋ + 1 = ${floor}` };
      const start = (ceil - 1) * step;
      if (start < lo + n) return { out: ceil, formula: `⌈${steps}⌉ + 1 = ${ceil}` };
      const why = `the last window would start at place ${start}, past the ${lo} + ${n} places of padding and input`;
      return { out: ceil - 1, formula: `⌈${steps}⌉ + 1 = ${ceil}, less 1 = ${ceil - 1}: ${why}` };
    }

    function cover(axis, i) {
      const start = i * stride[axis] - padding[axis][0];
      return range(kernel[axis]).map((tap) => ({ at: start + dilation[axis] * tap, tap }));
    }

    const [most, end] = [(axis, n, out) => out * kernel[axis], (axis, n) => n + padding[axis][1]];
    return { kernel, stride, padding, dilation, outputs, cover, most, end };
  }

  /* The adjoint of sliding windows: what adds to place p is each cell i with p = i·stride − before + dilation·tap. */
  function transposed({ kernel, stride, padding, dilation }, extra) {
    function outputs(axis, n) {
      const [k, step, d, e, [lo, hi]] = [kernel[axis], stride[axis], dilation[axis], extra[axis], padding[axis]];
      const out = (n - 1) * step + d * (k - 1) + 1 + e - lo - hi;
      if (out < 1) fail(`padding=${tuple(padding[axis])} on axis ${axis}: gives an output of size ${out}, must be at least 1`);
      return { out, formula: `(${n} − 1)·${step} + ${d}·(${k} − 1) + 1 + ${e} − ${lo} − ${hi} = ${out}` };
    }

    function cover(axis, p, n) {
      const [step, d, [lo]] = [stride[axis], dilation[axis], padding[axis]];
      const cells = range(kernel[axis]).map((tap) => ({ at: (p + lo - d * tap) / step, tap }));
      return cells.filter(({ at }) => Number.isInteger(at) && 0 <= at && at < n).reverse(); // the first cell has the last tap
    }

    const [most, end] = [(axis, n) => n * kernel[axis], (axis, n) => n];
    return { kernel, outputs, cover, most, end };
  }

  /* Bin i of m over n cells is [⌊i·n/m⌋, ⌈(i + 1)·n/m⌉); null keeps n. */
  function adaptive(s, rank) {
    const wanted = perAxis("output_size", s.output_size, rank);
    wanted.forEach((m, axis) => m === null || asInt("output_size", m, 1, ` on axis ${axis}`));
    return bins(wanted, (n, m) => `${counted(m, "bin")}: bin i is [⌊i·${n}/${m}⌋, ⌈(i + 1)·${n}/${m}⌉)`);
  }

  /* All cells: one bin on each axis. */
  function everything(s, rank) {
    return bins(Array(rank).fill(1), (n) => `1: all of ${counted(n, "cell")}`);
  }

  function bins(wanted, formula) {
    const count = (axis, n) => wanted[axis] ?? n;
    const outputs = (axis, n) => ({ out: count(axis, n), formula: formula(n, count(axis, n)) });

    function cover(axis, i, n) {
      const m = count(axis, n);
      const start = Math.floor((i * n) / m);
      return range(Math.ceil(((i + 1) * n) / m) - start).map((j) => ({ at: start + j, tap: null }));
    }

    const [most, end] = [(axis, n, out) => n + 2 * out, (axis, n) => n];
    return { kernel: null, outputs, cover, most, end };
  }

  /* Everything that output `at` covers: the places of the contract. */
  function placesOf(geometry, at, size, x) {
    return product(at.map((i, axis) => geometry.cover(axis, i, size[axis]))).map((taps) => {
      const place = taps.map((tap) => tap.at);
      const isCell = place.every((p, axis) => 0 <= p && p < size[axis]);
      const isPast = place.some((p, axis) => p >= geometry.end(axis, size[axis]));
      const kind = isCell ? "cell" : isPast ? "past" : "padding";
      const flat = isCell ? indexOf(place, size) : null;
      const tap = geometry.kernel && taps.map((each) => each.tap);
      return { at: place, kind, flat, tap, value: isCell ? x[flat] : null, weight: null, share: null };
    });
  }

  const isCell = (place) => place.kind === "cell";
  const isThere = (place) => place.value !== null;

  function countPaddingAsZeros(places) {
    for (const place of places) if (place.kind === "padding") place.value = 0;
  }

  /* The shape of the output with its formulas, if all of it is small enough. */
  function gridOf(geometry, size) {
    const axes = size.map((n, axis) => geometry.outputs(axis, n));
    const out = axes.map((axis) => axis.out);
    refuseMany(prod(out), "outputs", MOST_CELLS);
    refuseMany(prod(size.map((n, axis) => geometry.most(axis, n, out[axis]))), "places in windows", MOST_PLACES);
    return { out, formula: axes.map((axis) => axis.formula) };
  }

  // --- numbers as text ---------------------------------------------------------------------------------------------

  const short = (value) => (Number.isFinite(value) && value !== 0 ? Number(value.toPrecision(6)) : value);
  const text = (value) => (Object.is(value, -0) ? "−0" : `${short(value)}`.replace("Infinity", "∞").replaceAll("-", "−"));
  const factor = (value) => (text(value).startsWith("−") ? `(${text(value)})` : text(value));
  const times = (a, b) => `${text(a)}·${factor(b)}`;

  /* The terms, or the first 11 and how many more there are. */
  const listed = (terms) => (terms.length > 12 ? [...terms.slice(0, 11), `… (${terms.length - 11} more)`] : terms);
  const sumOf = (terms) => listed(terms).join(" + ").replaceAll("+ −", "− ");

  /* left = value, or ≈ if the value is shortened. */
  const equation = (left, value) => `${left} ${Object.is(short(value), value) ? "=" : "≈"} ${text(value)}`;

  // --- pooling: (settings, places) -> what look(o) in `answered` needs ---------------------------------------------

  /* NaN wins over every number and equals NaN; −0 equals 0. */
  const ordered = (wins) => (a, b) => (Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) && !Number.isNaN(b) : wins(a, b));
  const greater = ordered((a, b) => a > b);
  const less = ordered((a, b) => a < b);

  /* The first value that none wins over: the tie rule is this strict comparison, and nothing else. */
  const extreme = (values, wins) => values.reduce((best, value) => (wins(value, best) ? value : best));

  /* The greatest or the least value. Padded cells are absent; no cell at all gives 0. */
  function selection(name, wins) {
    return (s, places) => {
      const cells = places.filter(isCell);
      if (!cells.length) return { value: 0, index: -1, winners: [], pull: () => ({ x: [] }), words: () => "no cell: 0" };
      const values = cells.map((cell) => cell.value);
      const value = extreme(values, wins);
      const equal = cells.filter((cell) => !wins(value, cell.value)).map((cell) => cell.flat);
      const winners = s.ties === "first" ? equal.slice(0, 1) : equal;
      const share = (g) => (s.ties === "split" ? g / winners.length : g);
      const tie = equal.length > 1 ? `, ${s.ties === "first" ? "the first of " : ""}${equal.length} equal cells` : "";
      return {
        value,
        index: equal[0],
        winners,
        pull: (g) => ({ x: winners.map((flat) => [flat, share(g)]) }),
        words: () => equation(`${name}(${listed(values.map(text)).join(", ")})`, value) + tie,
      };
    };
  }

  /* The sum of the real cells ÷ the divisor: the override; or the places inside the padded input, or the real cells. */
  function mean(s, places) {
    const cells = places.filter(isCell);
    if (s.count_include_pad && s.divisor_override === null) countPaddingAsZeros(places);
    const seen = places.filter(isThere);
    const divisor = s.divisor_override ?? Math.max(seen.length, 1); // a sum of nothing is 0, whatever divides it
    for (const place of seen) place.share = 1 / divisor;
    const value = cells.reduce((sum, cell) => sum + cell.value, 0) / divisor;

    function words() {
      const sum = sumOf(seen.map((place) => text(place.value)));
      return seen.length ? equation(`${seen.length > 1 ? `(${sum})` : sum} / ${divisor}`, value) : "no cell: 0";
    }

    return {
      value,
      divisor,
      pull: (g) => ({ x: cells.map((cell) => [cell.flat, g / divisor]) }),
      words,
    };
  }

  /* (1/β)·log Σ exp(β·x). A padded cell is a zero, or absent; no cell at all gives 0.

  Each cell weighs exp(β·(x − top)), where top is the cell that weighs most: no exponent is above 0, so nothing overflows. */
  function smooth(s, places) {
    const beta = s.beta;
    if (s.count_include_pad) countPaddingAsZeros(places);
    const cells = places.filter(isCell);
    const seen = places.filter(isThere);
    const padded = seen.length - cells.length;
    if (!seen.length) return { value: 0, pull: (g) => ({ x: [], beta: (0 / beta) * g }), words: () => "no cell: 0" };
    const values = seen.map((place) => place.value);
    const top = extreme(padded ? [0, ...values] : values, beta > 0 ? greater : less);
    const gap = (a) => (Math.abs(a) === Infinity && a === top ? 0 : a - top); // as great as the greatest: it weighs as much
    const weigh = (a) => Math.exp(beta * gap(a));
    const zeros = padded ? padded * weigh(0) : 0;
    const total = cells.reduce((sum, cell) => sum + weigh(cell.value), zeros);
    const depth = Math.log(total) / beta;
    for (const place of seen) place.share = weigh(place.value) / total;
    const value = top + depth;
    // The derivative in β is E[x − y]/β under the softmax weights; (x − top) − depth is x − y without cancellation.
    const distance = (share, a) => (share !== 0 ? share * (gap(a) - depth) : share);
    const ofCells = cells.reduce((sum, cell) => sum + distance(cell.share, cell.value), 0);
    const slope = (padded ? ofCells + distance(zeros / total, 0) : ofCells) / beta;
    const powers = () => sumOf(values.map((a) => `e^(${times(beta, a)})`));
    return {
      value,
      pull: (g) => ({ x: cells.map((cell) => [cell.flat, cell.share * g]), beta: slope * g }),
      words: () => equation(`log(${powers()}) / ${factor(beta)}`, value),
    };
  }

  function checkTies(s) {
    oneOf("ties", s.ties, ["first", "all", "split"]);
    oneOf("empty", s.empty, ["zero", "raise"]);
  }

  function checkDivisor(s) {
    if (s.divisor_override !== null) asInt("divisor_override", s.divisor_override, 1);
  }

  function checkBeta(s) {
    if (typeof s.beta !== "number") fail(`beta=${python(s.beta)}: must be a real number, not ${kindOf(s.beta)}`);
    if (!Number.isFinite(s.beta)) fail(`beta=${python(s.beta)}: must be finite; max_pool is the limit`);
    if (s.beta === 0) fail(`beta=${python(s.beta)}: must not be zero; the smooth maximum tends to infinity there`);
  }

  function checkEmpty(geometry, size, out) {
    size.forEach((n, axis) => {
      const window = range(out[axis]).findIndex((i) => !geometry.cover(axis, i, n).some(({ at }) => 0 <= at && at < n));
      if (window >= 0) fail(`empty="raise": window ${window} on axis ${axis} covers no cell of the input`);
    });
  }

  const FAMILIES = { "": sliding, adaptive_: adaptive, global_: everything };
  const POOLING = {
    max_pool: { check: checkTies, reduce: selection("max", greater) },
    min_pool: { check: checkTies, reduce: selection("min", less) },
    avg_pool: { check: checkDivisor, reduce: mean },
    smooth_max_pool: { check: checkBeta, reduce: smooth },
  };

  function pooling(s, family, { check, reduce }) {
    const geometry = FAMILIES[family](s, s.size.length);
    check(s);
    const size = sizes(s);
    const { out, formula } = gridOf(geometry, size);
    if (check === checkTies && s.empty === "raise") checkEmpty(geometry, size, out);
    const x = numbers("cells", s.cells, prod(size));

    function look(o) {
      const places = placesOf(geometry, placeOf(o, out), size, x);
      return { places, ...reduce(s, places) };
    }

    return answered(s, { x }, out, formula, look);
  }

  // --- convolution and its adjoint ---------------------------------------------------------------------------------

  /* Cross-correlation: the bias, and to it the products of all cells with their weights, one after the other. */
  function convolution(s) {
    const rank = s.size.length;
    const stride = s.stride === null ? s.size.map(() => 1) : ints("stride", s.stride, rank);
    const sides = sliding({ ...s, stride, ceil_mode: false }, rank);
    const geometry = s.op === "conv" ? sides : transposed(sides, outputPadding(s, sides));
    const size = sizes(s);
    const { out, formula } = gridOf(geometry, size);
    refuseMany(prod(sides.kernel), "cells of the kernel", MOST_CELLS);
    const x = numbers("cells", s.cells, prod(size));
    const weight = numbers("weight", s.weight, prod(sides.kernel));
    if (s.bias !== null && typeof s.bias !== "number") fail("bias: must be a number or null");

    function look(o) {
      const places = placesOf(geometry, placeOf(o, out), size, x);
      countPaddingAsZeros(places);
      for (const place of places) place.weight = weight[indexOf(place.tap, sides.kernel)];
      const cells = places.filter(isCell); // a padded zero has no product, not even with an infinite weight
      const value = cells.reduce((sum, cell) => sum + cell.weight * cell.value, 0 + (s.bias ?? 0));

      function words() {
        const bias = s.bias === null ? [] : [s.bias];
        if (!cells.length) return `no cell: ${text(value)}${bias.length ? ", the bias" : ""}`;
        const terms = [...bias.map(text), ...cells.map((cell) => times(cell.weight, cell.value))];
        return equation(sumOf(terms), value);
      }

      return {
        places,
        value,
        pull: (g) => ({
          x: cells.map((cell) => [cell.flat, g * cell.weight]),
          weight: cells.map((cell) => [indexOf(cell.tap, sides.kernel), g * cell.value]),
        }),
        words,
      };
    }

    return answered(s, { x, weight, kernel: sides.kernel, bias: s.bias }, out, formula, look);
  }

  function outputPadding(s, { stride, dilation }) {
    const extra = ints("output_padding", s.output_padding ?? stride.map(() => 0), stride.length, 0);
    extra.forEach((e, axis) => {
      const than = `the stride (${stride[axis]}) or the dilation (${dilation[axis]})`;
      if (e >= stride[axis] && e >= dilation[axis]) fail(`output_padding=${e} on axis ${axis}: must be smaller than ${than}`);
    });
    return extra;
  }

  // --- max unpooling -----------------------------------------------------------------------------------------------

  /* Each cell goes to the place that its index says; of several the last is kept, or they are added. */
  function unpooling(s) {
    const rank = s.size.length;
    const sides = sliding({ ...s, dilation: undefined, ceil_mode: false }, rank);
    const wanted = s.output_size === null ? null : ints("output_size", s.output_size, rank);
    oneOf("duplicates", s.duplicates, ["last", "add"]);
    const size = sizes(s);
    const { out, formula } = wanted
      ? { out: wanted, formula: wanted.map((m) => `output_size = ${m}`) }
      : gridOf(transposed(sides, size.map(() => 0)), size);
    refuseMany(prod(out), "outputs", MOST_CELLS);
    const x = numbers("cells", s.cells, prod(size));
    const sent = new Map();
    numbers("indices", s.indices, x.length).forEach((index, flat) => {
      if (index === -1) return;
      const at = placeOf(flat, size);
      if (!Number.isInteger(index) || index < 0 || index >= prod(out)) {
        const wantedIndex = `must be -1 or from 0 to ${prod(out) - 1}, an index into the output plane ${tuple(out)}`;
        fail(`indices[${at.join(", ")}]=${python(index)}: ${wantedIndex}`);
      }
      if (!sent.has(index)) sent.set(index, []);
      sent.get(index).push(flat);
    });

    function look(o) {
      const flats = sent.get(o) ?? [];
      const winners = s.duplicates === "last" ? flats.slice(-1) : flats;
      const places = flats.map((flat) => {
        return { at: placeOf(flat, size), kind: "cell", flat, tap: null, value: x[flat], weight: null, share: null };
      });
      const arrived = winners.map((flat) => x[flat]);
      const value = arrived.reduce((sum, each) => sum + each, 0);

      function words() {
        if (!flats.length) return "no cell has this index: 0";
        if (winners.length > 1) return equation(sumOf(arrived.map(text)), value);
        const last = flats.length > 1 ? `, the last of ${flats.length} with this index` : "";
        return `${text(value)} from cell ${tuple(placeOf(winners[0], size))}${last}`;
      }

      return { places, value, winners, pull: (g) => ({ x: winners.map((flat) => [flat, g]) }), words };
    }

    return answered(s, { x }, out, formula, look);
  }

  // --- the answer --------------------------------------------------------------------------------------------------

  /* All outputs by `look`, and all gradients: sums over the outputs in row-major order. */
  function answered(s, { x, weight = null, kernel = null, bias = null }, out, formula, look) {
    const count = prod(out);
    const g = s.cotangent === null ? Array(count).fill(1) : numbers("cotangent", s.cotangent, count);
    const [values, indices] = [[], []];
    const back = { x: x.map(() => 0), weight: weight && weight.map(() => 0), bias: bias === null ? null : 0, beta: null };
    for (let o = 0; o < count; o++) {
      const { value, index = null, pull } = look(o);
      values.push(value);
      indices.push(index);
      const pulled = pull(g[o]);
      for (const [flat, part] of pulled.x) back.x[flat] += part;
      for (const [flat, part] of pulled.weight ?? []) back.weight[flat] += part;
      if (bias !== null) back.bias += g[o];
      if (pulled.beta !== undefined) back.beta = (back.beta ?? 0) + pulled.beta;
    }

    function one(o) {
      if (!Number.isInteger(o) || o < 0 || o >= count) fail(`output ${o}: must be from 0 to ${count - 1}`);
      return look(o);
    }

    function window(o) {
      const { places, winners = [], divisor = null, value, words } = one(o);
      return { at: placeOf(o, out), places, winners, divisor, value, words: words() };
    }

    function gives(o) {
      const pulled = one(o).pull(1);
      return {
        x: pulled.x.map(([flat, value]) => ({ flat, value })),
        weight: pulled.weight ? pulled.weight.map(([flat, value]) => ({ tap: placeOf(flat, kernel), flat, value })) : null,
        bias: bias === null ? null : 1,
        beta: pulled.beta ?? null,
      };
    }

    return { out, values, indices: indices[0] === null ? null : indices, formula, window, gives, back };
  }

  const DEFAULTS = {
    stride: null,
    empty: "zero",
    count_include_pad: true,
    divisor_override: null,
    output_size: null,
    duplicates: "last",
    bias: null,
    cotangent: null,
  };

  function answer(state) {
    const given = Object.fromEntries(Object.entries(state).filter(([, value]) => value !== undefined));
    const family = ["adaptive_", "global_"].find((prefix) => `${state.op}`.startsWith(prefix)) ?? "";
    const s = { ...DEFAULTS, ties: family === "global_" ? "all" : "first", ...given };
    if (family) s.divisor_override = null; // only sliding windows have it
    if (!Array.isArray(s.size) || s.size.length < 1 || s.size.length > 3) fail("size: must be a list of 1 to 3 integers");
    if (s.op === "conv" || s.op === "conv_transpose") return convolution(s);
    if (s.op === "max_unpool") return unpooling(s);
    const name = `${s.op}`.slice(family.length);
    if (!Object.hasOwn(POOLING, name)) fail(`op=${python(s.op)}: not an operator of the explorer`);
    return pooling(s, family, POOLING[name]);
  }

  return Object.freeze({ answer });
})();
