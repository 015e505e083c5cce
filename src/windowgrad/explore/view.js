/* What is seen of an answer: the grids, the chosen window on them, and what is told of it in words. */
const view = (() => {
  "use strict";

  const { element, exact, field, named, short } = draw;
  const { every, flatOf, isIn, parts, placeOf } = states;
  const by = (id) => document.getElementById(id);
  const keepers = new Map();
  const LISTED = 12;

  const keeper = (id) => keepers.get(id) ?? keepers.set(id, draw.keeper(by(id))).get(id);
  const counted = (many, word) => `${many} ${word}${many === 1 ? "" : "s"}`;
  const sized = (sizes) => sizes.join(" × ");

  // --- which places are drawn ---------------------------------------------------------------------------------------

  /** From where to where the input is drawn along each axis: its cells, the padding, and what windows reach beyond. */
  function extent(full, answer) {
    const zero = every(full.size.length, 0);
    if (!answer || parts(full.op).windows !== "sliding" || full.op === "conv_transpose" || full.op === "max_unpool")
      return [zero, full.size];
    const low = full.padding.map(([before]) => -before), high = full.size.map((n, axis) => n + full.padding[axis][1]);
    const last = answer.window(answer.values.length - 1).places.at(-1).at;
    return [low, high.map((end, axis) => Math.max(end, last[axis] + 1))];
  }

  /** How many places are drawn for the input. */
  function many(full, answer) {
    const [low, high] = extent(full, answer);
    return states.product(high.map((end, axis) => end - low[axis]));
  }

  function kindOf(place, full) {
    if (isIn(place, full.size)) return "cell";
    return place.some((i, axis) => i >= full.size[axis] + full.padding[axis][1]) ? "past" : "padding";
  }

  /** Whether padding counts as a zero, or is absent. */
  function padsCount(full) {
    return full.op === "conv" || ((full.op === "avg_pool" || full.op === "smooth_max_pool") && full.count_include_pad);
  }

  // --- forward ------------------------------------------------------------------------------------------------------

  function input(full, answer) {
    const [low, high] = extent(full, answer), zero = padsCount(full) ? "0" : "";
    const key = [full.op, full.size, JSON.stringify(full.padding), zero].join(" ");
    const places = keeper("input-grid")(low, high, (place) => {
      const kind = kindOf(place, full);
      if (kind === "cell") return field(`Cell ${named(place)}`);
      return element("div", { class: `place ${kind}` }, element("span", {}, kind === "past" ? "×" : zero), element("small"));
    }, key);
    for (const [name, made] of places) {
      const place = name.split(",").map(Number);
      if (isIn(place, full.size)) draw.put(made, exact(full.cells[flatOf(place, full.size)]));
    }
    by("input-size").textContent = sized(full.size);
    return places;
  }

  function editable(id, size, cells, label) {
    const places = keeper(id)(every(size.length, 0), size, (place) => field(`${label} ${named(place)}`), label);
    for (const [name, made] of places) draw.put(made, exact(cells[flatOf(name.split(",").map(Number), size)]));
    return places;
  }

  function weight(full) {
    by("weight").hidden = !states.hasWeight(full.op);
    by("indices").hidden = full.op !== "max_unpool";
    by("weight-size").textContent = sized(full.kernel_size);
    if (full.op === "max_unpool") return { indices: editable("indices-grid", full.size, full.indices, "Index of cell") };
    return states.hasWeight(full.op) && full.weight.length
      ? { weight: editable("weight-grid", full.kernel_size, full.weight, "Weight") } : {};
  }

  function output(answer) {
    const places = keeper("output-grid")(every(answer.out.length, 0), answer.out,
      () => element("button", { type: "button", class: "place cell out", tabindex: "-1" }));
    for (const [name, made] of places) {
      const place = name.split(",").map(Number), value = answer.values[flatOf(place, answer.out)];
      draw.put(made, draw.tiny(value));
      made.setAttribute("aria-label", `Output ${named(place)}: ${exact(value)}`);
      made.title = `output ${named(place)} = ${exact(value)}`;
    }
    by("output-size").textContent = sized(answer.out);
    return places;
  }

  /** Marks the window of an output on the input, and the output itself. */
  function mark(places, full, answer, o) {
    const seen = answer.window(o), at = new Map(seen.places.map((place) => [place.at.join(","), place]));
    const winners = new Set(seen.winners), chosen = seen.at.join(",");
    for (const [name, made] of places.input) {
      const place = at.get(name), won = place && place.flat !== null && winners.has(place.flat);
      made.classList.toggle("seen", Boolean(place));
      made.classList.toggle("won", Boolean(won));
      made.querySelector("small").textContent = place ? beside(place, full) : "";
      const words = `Cell ${named(name.split(",").map(Number))}${place ? ", in the window" : ""}${won ? ", winner" : ""}`;
      made.querySelector("input")?.setAttribute("aria-label", words);
    }
    for (const [name, made] of places.output) {
      made.classList.toggle("chosen", name === chosen);
      if (name === chosen) made.setAttribute("aria-current", "true");
      else made.removeAttribute("aria-current");
    }
    markWeight(places, seen);
    return seen;
  }

  function beside(place, full) {
    if (place.weight !== null) return `×${short(place.weight, 2)}`;
    return place.share !== null && full.op.endsWith("smooth_max_pool") ? `${Math.round(100 * place.share)}%` : "";
  }

  /** Of a weight, the taps that meet a real cell. */
  function markWeight(places, seen) {
    if (!places.weight) return;
    const used = new Set(seen.places.filter((place) => place.kind === "cell" && place.tap).map((place) => place.tap.join(",")));
    for (const [name, made] of places.weight) made.classList.toggle("seen", used.has(name));
  }

  // --- words --------------------------------------------------------------------------------------------------------

  function told(full, answer, seen, o) {
    const kinds = (kind) => seen.places.filter((place) => place.kind === kind).length, lines = [];
    const cells = kinds("cell"), padded = kinds("padding"), past = kinds("past");
    const what = { conv_transpose: ["adds to it", "add to it"], max_unpool: ["has this index", "have this index"] }[full.op];
    lines.push(`${counted(cells, "cell")} ${what ? what[cells === 1 ? 0 : 1] : "seen"}`);
    if (padded) lines.push(`${padded} padded (${padsCount(full) ? "count as 0" : "absent"})`);
    if (past) lines.push(`${past} past the padding (count as nothing)`);
    if (seen.divisor !== null) lines.push(`divisor ${exact(seen.divisor)}`);
    const winners = listed(seen.winners.map((flat) => named(placeOf(flat, full.size))));
    const won = `${seen.winners.length === 1 ? "Winner: cell" : "Winners: cells"} ${winners}.`;
    return [
      element("h3", {}, `Output ${named(seen.at)} = ${exact(rounded(seen.value))}`),
      element("p", { class: "words" }, seen.words),
      element("p", { class: "counts" }, lines.join(" · ")),
      ...(seen.winners.length && full.op !== "max_unpool" ? [element("p", {}, won)] : []),
      element("p", {}, givenBack(full, answer, o)),
    ];
  }

  const rounded = (value) => (Number.isFinite(value) && value ? Number(value.toPrecision(8)) : value);
  const more = (words) => (words.length > LISTED ? ` and ${words.length - LISTED} more` : "");
  const listed = (words) => words.slice(0, LISTED).join(", ") + more(words);

  function givenBack(full, answer, o) {
    const given = answer.gives(o).x.filter(({ value }) => value !== 0);
    const where = given.map(({ flat }) => named(placeOf(flat, full.size))), to = given.length > 1 ? "each of the cells" : "cell";
    if (!given.length) return "A gradient of 1 here reaches no cell of the input.";
    if (given.every(({ value }) => value === given[0].value))
      return `A gradient of 1 here gives ${short(given[0].value, 4)} to ${to} ${listed(where)}.`;
    return `A gradient of 1 here gives ${listed(given.map(({ value }, i) => `${short(value)} to ${where[i]}`))}.`;
  }

  function formula(answer) {
    by("formula").replaceChildren(...answer.formula.map((text, axis) =>
      element("p", {}, element("b", {}, `axis ${axis}`), ` ${text}`)));
  }

  function legend(full, answer) {
    const [low, high] = extent(full, answer), isOutside = low.some((i) => i < 0) || full.size.some((n, axis) => high[axis] > n);
    const isPadded = isOutside && full.padding.some((pad) => pad.some(Boolean));
    const isPast = isOutside && full.size.some((n, axis) => high[axis] > n + full.padding[axis][1]);
    const seen = { conv_transpose: "adds to the output", max_unpool: "has its index" }[full.op] ?? "in the window";
    const rows = [["seen", seen]];
    if (states.settings(full.op).includes("ties")) rows.push(["seen won", "winner"]);
    if (full.op === "max_unpool") rows.push(["seen won", "arrives"]);
    if (isPadded) rows.push(["padding", `padding: ${padsCount(full) ? "counts as 0" : "absent"}`]);
    if (isPast) rows.push(["past", "past the padding: counts as nothing"]);
    by("legend").replaceChildren(...rows.map(([kind, words]) => {
      const sign = kind === "past" ? "×" : kind === "padding" && padsCount(full) ? "0" : "";
      const look = `place ${kind.startsWith("seen") ? "cell " : ""}${kind}`;
      return element("li", {}, element("i", { class: look, "aria-hidden": "true" }, sign), words);
    }));
  }

  // --- backward -----------------------------------------------------------------------------------------------------

  function backward(full, answer, o, isWhole) {
    const one = answer.values.map((_, i) => (i === o ? 1 : 0)), given = answer.gives(o);
    const x = isWhole ? answer.back.x : spread(given.x, full.cells.length);
    numbers("gradient-grid", full.size, x);
    by("weight-back").hidden = !states.hasWeight(full.op);
    if (states.hasWeight(full.op))
      numbers("weight-gradient-grid", full.kernel_size, isWhole ? answer.back.weight : spread(given.weight, full.weight.length));
    const extra = ["bias", "beta"].map((name) => [name, (isWhole ? answer.back : given)[name]]).filter(([, value]) => value !== null);
    const others = extra.map(([name, value]) => ` Gradient of ${name}: ${short(value, 5)}.`).join("");
    by("back-words").textContent = (isWhole
      ? "Every output has a gradient, which you can change; each cell gets the sum of what its outputs give it."
      : "A gradient of 1 at the chosen output, and where it goes.") + others;
    if (isWhole) return editable("cotangent-grid", answer.out, full.cotangent ?? one.map(() => 1), "Gradient at output");
    numbers("cotangent-grid", answer.out, one);
    return null;
  }

  function spread(list, many) {
    const found = Array.from({ length: many }, () => 0);
    for (const { flat, value } of list ?? []) found[flat] = value;
    return found;
  }

  function numbers(id, size, values) {
    const places = keeper(id)(every(size.length, 0), size, () => element("div", { class: "place cell number" }), "numbers");
    for (const [name, made] of places) {
      const value = values[flatOf(name.split(",").map(Number), size)];
      draw.put(made, draw.tiny(value));
      made.classList.toggle("zero", value === 0);
      made.title = `${named(name.split(",").map(Number))}: ${exact(value)}`;
    }
  }

  return Object.freeze({ backward, formula, input, legend, many, mark, output, told, weight });
})();
