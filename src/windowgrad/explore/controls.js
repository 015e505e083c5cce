/* The settings: which operator, and its arguments, one row each. `controls.show(state, change)` draws or fills them;
`change(changes)` is called with the arguments that a reader has changed. */
const controls = (() => {
  "use strict";

  const { element } = draw;
  const OPERATORS = { max_pool: "Max", min_pool: "Min", avg_pool: "Mean", smooth_max_pool: "Smooth max", conv: "Convolution",
    conv_transpose: "Transposed conv", max_unpool: "Unpool" };
  const WINDOWS = { sliding: "Sliding", adaptive: "Adaptive", global: "Global" };
  const AXES = { 1: "1-D", 2: "2-D", 3: "3-D" };
  /** Name, title, and the side of a pair. */
  const ROWS = [
    ["size", "size"], ["kernel_size", "kernel_size"], ["stride", "stride"],
    ["padding", "padding before", 0], ["padding", "padding after", 1], ["dilation", "dilation"],
    ["output_size", "output_size"], ["output_padding", "output_padding"],
  ];
  const HINTS = {
    ceil_mode: "A last window may hang over the end, if it starts before the end.",
    count_include_pad: "Padded cells count as zeros; otherwise they are left out.",
  };
  let drawn = "", together = false, change = () => {};

  function show(state, changed) {
    change = changed;
    const layout = `${state.op} ${state.size.length}`;
    if (layout !== drawn) build(state);
    drawn = layout;
    fill(state);
  }

  // --- choices ------------------------------------------------------------------------------------------------------

  /** Buttons of which one is pressed; arrow keys choose, as among radio buttons, which they are. */
  function choice(name, title, words, value, chosen) {
    const made = Object.entries(words).map(([key, word]) => {
      const input = element("input", { type: "radio", name, value: key });
      input.checked = key === String(value);
      input.addEventListener("change", () => chosen(key));
      return element("label", {}, input, element("span", {}, word));
    });
    const head = title ? [element("legend", {}, title)] : [];
    return element("fieldset", { class: "choice" }, ...head, element("div", {}, ...made));
  }

  function build(state) {
    const { base, windows } = states.parts(state.op), rank = state.size.length, focused = document.activeElement?.name;
    const has = new Set(["size", ...states.settings(state.op)]);
    const windowsOf = (name) => (states.POOLS.includes(name) ? windows : "sliding");
    const kinds = states.POOLS.includes(base)
      ? [choice("windows", "Windows", WINDOWS, windows, (kind) => change({ op: states.joined(base, kind) }))] : [];
    document.getElementById("choices").replaceChildren(
      choice("op", "Operator", OPERATORS, base, (name) => change({ op: states.joined(name, windowsOf(name)) })),
      ...kinds,
      choice("rank", "Axes", AXES, rank, (count) => change({ rank: Number(count) })),
    );
    const head = element("tr", {}, element("td"), ...axisNames(rank).map((name) => element("th", { scope: "col" }, name)));
    const rows = ROWS.filter(([name]) => has.has(name)).map((row) => axisRow(row, rank));
    const options = document.getElementById("options");
    options.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
    if (rank > 1) options.append(linked());
    for (const [name, one] of Object.entries(SINGLE)) if (has.has(name)) options.append(one(name));
    if (focused) document.querySelector(`#choices [name="${focused}"]:checked`)?.focus();
  }

  const axisNames = (rank) => Array.from({ length: rank }, (_, axis) => `axis ${axis}`);

  // --- one entry per axis -------------------------------------------------------------------------------------------

  function axisRow([name, title, side], rank) {
    const fields = axisNames(rank).map((axisName, axis) => {
      const data = { "data-name": name, "data-axis": axis, "data-side": side };
      const input = element("input", { type: "number", "aria-label": `${title}, ${axisName}`, ...data });
      if (name === "output_size") input.placeholder = "auto";
      input.addEventListener("input", () => entered(input));
      return element("td", {}, stepper(input, title, axisName));
    });
    return element("tr", {}, element("th", { scope: "row" }, title), ...fields);
  }

  function stepper(input, title, axisName) {
    const button = (sign, step) => {
      const label = `${step > 0 ? "Increase" : "Decrease"} ${title}, ${axisName}`;
      const made = element("button", { type: "button", tabindex: "-1", "aria-label": label }, sign);
      made.addEventListener("click", () => {
        input.value = Number(input.value || input.dataset.shown || 0) + step;
        entered(input);
      });
      return made;
    };
    return element("span", { class: "stepper" }, button("−", -1), input, button("+", 1));
  }

  function linked() {
    const input = element("input", { type: "checkbox", name: "together" });
    input.checked = together;
    input.addEventListener("change", () => (together = input.checked));
    return element("label", { class: "flag" }, input, element("span", {}, "change all axes together"));
  }

  /** A whole number was entered, or nothing where that means something. */
  function entered(input) {
    const { name, axis, side } = input.dataset, isBlank = input.value === "";
    if (isBlank && name !== "output_size") return;
    const value = isBlank ? null : Math.max(-99, Math.min(99, Math.trunc(Number(input.value))));
    change((state) => {
      const before = name === "stride" ? state.stride ?? states.usualStride(state) : state[name];
      const entries = before.map((old, other) => {
        if (other !== Number(axis) && !together) return old;
        return side === undefined ? value : old.map((pad, which) => (which === Number(side) ? value : pad));
      });
      return { [name]: entries };
    });
  }

  // --- one entry for all axes ---------------------------------------------------------------------------------------

  function flag(name) {
    const input = element("input", { type: "checkbox", "data-name": name });
    input.addEventListener("change", () => change({ [name]: input.checked }));
    return element("label", { class: "flag", title: HINTS[name] }, input, element("span", {}, name));
  }

  function select(allowed) {
    return (name) => {
      const made = element("select", { "data-name": name }, ...allowed.map((value) => element("option", { value }, value)));
      made.addEventListener("change", () => change({ [name]: made.value }));
      return element("label", { class: "line" }, element("span", {}, name), made);
    };
  }

  function text(placeholder, read) {
    return (name) => {
      const made = element("input", { type: "text", "data-name": name, placeholder, inputmode: "decimal", autocomplete: "off" });
      made.addEventListener("input", () => {
        const isNone = made.value.trim() === "" && placeholder === "none", value = isNone ? null : read(made.value);
        made.setAttribute("aria-invalid", value === undefined);
        if (value !== undefined) change({ [name]: value });
      });
      return element("label", { class: "line" }, element("span", {}, name), made);
    };
  }

  const whole = (entry) => (Number.isInteger(states.number(entry)) ? states.number(entry) : undefined);

  function beta(name) {
    const made = text("", (entry) => states.number(entry))(name);
    const slider = element("input", { type: "range", min: -4, max: 4, step: 0.25, "aria-label": "beta" });
    slider.addEventListener("input", () => change({ beta: Number(slider.value) }));
    made.append(slider);
    return made;
  }

  const SINGLE = {
    ceil_mode: flag, count_include_pad: flag, ties: select(states.TIES), beta, divisor_override: text("none", whole),
    bias: text("none", (entry) => states.number(entry)), duplicates: select(states.DUPLICATES),
  };

  // --- values -------------------------------------------------------------------------------------------------------

  function fill(state) {
    const stride = state.stride ?? states.usualStride(state);
    for (const input of document.querySelectorAll("#options [data-axis]")) {
      const { name, axis, side } = input.dataset, entry = (name === "stride" ? stride : state[name])[axis];
      const value = side === undefined ? entry : entry[side];
      input.closest("td").classList.toggle("usual", name === "stride" && state.stride === null);
      if (input !== document.activeElement || Number(input.value) !== value) input.value = value ?? "";
      if (name === "output_size") input.dataset.shown = state.size[axis];
    }
    for (const input of document.querySelectorAll("#options [data-name]:not([data-axis])")) {
      const value = state[input.dataset.name];
      if (input.type === "checkbox") input.checked = value;
      else if (input !== document.activeElement) input.value = typeof value === "number" ? draw.exact(value) : value ?? "";
    }
    const slider = document.querySelector("#options [type=range]");
    if (slider && slider !== document.activeElement) slider.value = state.beta;
    const { base, windows } = states.parts(state.op), chosen = { op: base, windows, rank: String(state.size.length) };
    for (const input of document.querySelectorAll("#choices input")) input.checked = input.value === chosen[input.name];
  }

  return Object.freeze({ choice, show });
})();
