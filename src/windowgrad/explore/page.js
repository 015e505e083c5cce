/* The page: one state, its answer, and what happens when a reader changes something. */
(() => {
  "use strict";

  const { element } = draw;
  const by = (id) => document.getElementById(id);
  const facts = JSON.parse(by("facts").textContent);
  const FRAMEWORKS = { windowgrad: "windowgrad", torch: "PyTorch", jax: "JAX", onnx: "ONNX" };
  const NAMES = { torch: ["torch", "torch.compile"], jax: ["jax"], onnx: ["onnx", "onnxruntime"], windowgrad: [] };
  const EXAMPLES = {
    "Padding and ceil mode": "#op=max_pool&size=6x6&kernel=3&stride=2&padding=1&ceil=1&seed=5&at=15",
    "Ties, split": "#op=max_pool&size=4x4&kernel=3&stride=1&ties=split&cells=1,5,2,5,5,0,5,1,2,5,3,5,0,1,5,2&at=0&back=all",
    "NaN and −∞": "#op=max_pool&size=4x5&kernel=2&stride=1&cells=3,nan,1,-inf,-inf,0,2,-0,-inf,-inf,7,nan,nan,4,inf,1,0,2,6,-1&at=1",
    "A window of padding": "#op=max_pool&size=3x4&kernel=2&stride=2&padding=0:3x0:0&seed=3&at=4",
    "Mean and its divisor": "#op=avg_pool&size=5x5&kernel=3&stride=2&padding=1&ceil=1&count_include_pad=0&seed=2",
    "Bins that overlap": "#op=adaptive_avg_pool&size=5x7&output_size=3x4&seed=4&at=5",
    "Smooth maximum": "#op=smooth_max_pool&size=5x5&kernel=3&stride=1&beta=0.5&seed=6&at=4",
    "Dilated convolution": "#op=conv&size=7x7&kernel=3&dilation=2&padding=2&weight=1,0,-1,2,0,-2,1,0,-1&seed=8&at=16",
    "Transposed convolution": "#op=conv_transpose&size=3x3&kernel=3&stride=2&padding=1&output_padding=1&seed=9&at=7",
    "Three axes": "#op=max_pool&size=3x4x4&kernel=2&stride=2x1x2&padding=1x0x0&seed=7&at=5",
    "An error": "#op=max_pool&size=4x4&kernel=3&dilation=2&seed=1",
  };
  const NOT_ASKED = "Unpooling is not among the operators that windowgrad conform asks about.";
  const SOME = "What other implementations are known to do otherwise with this operator, such options and such cells (from " +
    "windowgrad conform).";
  const NONE = "None of the implementations that windowgrad conform asks is known to do otherwise with this operator, such " +
    "options and such cells.";
  const MOST_PLACES = 1600;

  let state, full, answer = null, programs = {}, known = [], places = {};
  let peeked = null, framework = "windowgrad", edited = null, playing = null, remembering = null;

  // --- from a state to the page -------------------------------------------------------------------------------------

  function set(next) {
    state = next;
    peeked = null;
    by("message").hidden = true;
    refresh();
    remember();
  }

  /** The address follows when a reader pauses: browsers refuse more than a few changes in a second. */
  function remember() {
    clearTimeout(remembering);
    remembering = setTimeout(() => history.replaceState(null, "", states.written(state)), 200);
  }

  function refresh() {
    let problem = null;
    try {
      full = states.filled(state);
      answer = windows.answer(full);
      refuse("outputs", answer.values.length, states.MOST_CELLS);
      refuse("cells with padding", view.many(full, answer), MOST_PLACES);
    } catch (error) {
      [answer, problem] = [null, error.message];
    }
    if (answer) state.at = Math.max(0, Math.min(state.at, answer.values.length - 1));
    by("error").hidden = problem === null;
    by("error").textContent = problem ?? "";
    document.body.classList.toggle("wrong", problem !== null);
    controls.show(state, changed);
    for (const input of document.querySelectorAll("#backs input")) input.checked = input.value === state.back;
    drawAll();
  }

  function refuse(what, many, most) {
    if (many > most) throw new Error(`${many} ${what}: the page draws at most ${most}`);
  }

  function drawAll() {
    const isDrawn = full.cells.length === states.product(full.size) && full.cells.length > 0;
    by("input-grid").hidden = !isDrawn;
    places = { input: isDrawn ? view.input(full, answer) : new Map(), output: new Map(), ...view.weight(full) };
    if (!answer) return;
    places.output = view.output(answer);
    view.formula(answer);
    view.legend(full, answer);
    programs = code.of(full, answer);
    known = notes.about(facts, full, answer);
    showCode();
    showNotes();
    choose(state.at);
  }

  /** The output whose window is shown: the chosen one, or the one that is pointed at. */
  const shown = () => peeked ?? state.at;

  function choose(o) {
    const seen = view.mark(places, full, answer, o);
    by("told").replaceChildren(...view.told(full, answer, seen, o));
    const cotangent = view.backward(full, answer, o, state.back === "all");
    places.cotangent = cotangent ?? new Map();
    draw.rove(places.output, states.placeOf(state.at, answer.out).join(","));
    for (const name of ["input", "weight", "indices", "cotangent"])
      if (places[name]) draw.rove(places[name], edited?.name === name ? edited.place : "");
  }

  // --- changes ------------------------------------------------------------------------------------------------------

  /** Settings that a reader has changed: the changes, or a function of the state that gives them. */
  function changed(given) {
    const changes = typeof given === "function" ? given(state) : given;
    if ("op" in changes) set(states.withOp(state, changes.op));
    else if ("rank" in changes) set(states.withRank(state, changes.rank));
    else if (changes.size && states.product(changes.size) > states.MOST_CELLS) controls.show(state, changed);
    else set(states.changed(state, changes));
  }

  function load() {
    by("message").hidden = true;
    clearTimeout(remembering);
    stop();
    try {
      state = states.read(location.hash);
    } catch (error) {
      state = states.first();
      by("message").hidden = false;
      by("message").textContent = `The address could not be read: ${error.message}. The page shows what it opens with instead.`;
    }
    peeked = null;
    refresh();
  }

  // --- choosing outputs ---------------------------------------------------------------------------------------------

  function go(o, focus) {
    state.at = o;
    peeked = null;
    choose(o);
    remember();
    if (focus) places.output.get(states.placeOf(o, answer.out).join(",")).focus();
  }

  const outputOf = (target) => {
    const made = target.closest?.("#output-grid [data-place]");
    return made && answer ? states.flatOf(made.dataset.place.split(",").map(Number), answer.out) : null;
  };

  function peek(event) {
    if (event.pointerType === "touch" || playing) return;
    const o = outputOf(event.target);
    if (o === null || o === shown()) return;
    peeked = o;
    choose(o);
  }

  function unpeek() {
    if (peeked === null || !answer) return;
    peeked = null;
    choose(state.at);
  }

  function keyOnOutput(event) {
    if (!answer || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = draw.moved(states.placeOf(state.at, answer.out), event.key, answer.out);
    if (next === null) return;
    event.preventDefault();
    go(states.flatOf(next, answer.out), true);
  }

  const step = (far) => answer && go((state.at + far + answer.values.length) % answer.values.length, false);

  function stop() {
    clearInterval(playing);
    playing = null;
    by("play").textContent = "Play";
    by("play").setAttribute("aria-pressed", "false");
    by("told").setAttribute("aria-live", "polite");
  }

  function play() {
    if (playing) return stop();
    playing = setInterval(() => (answer ? step(1) : stop()), 900);
    by("play").textContent = "Stop";
    by("play").setAttribute("aria-pressed", "true");
    by("told").setAttribute("aria-live", "off"); // a reader of screens would never come to an end
    return undefined;
  }

  // --- editing cells ------------------------------------------------------------------------------------------------

  const GRIDS = {
    "input-grid": ["input", "cells"], "weight-grid": ["weight", "weight"], "indices-grid": ["indices", "indices"],
    "cotangent-grid": ["cotangent", "cotangent"],
  };

  function fieldOf(input) {
    const root = input?.closest(".drawn"), made = input?.closest("[data-place]");
    if (!made || !(root.id in GRIDS) || !input.matches("input")) return null;
    return { root: root.id, name: GRIDS[root.id][0], place: made.dataset.place, input };
  }

  const sizeOf = (name) => ({ input: full.size, indices: full.size, weight: full.kernel_size, cotangent: answer?.out })[name];

  function write(at, value) {
    const [name, key] = GRIDS[at.root], size = sizeOf(name), many = states.product(size);
    const cells = [...(full[key] ?? Array.from({ length: many }, () => 1))];
    cells[states.flatOf(at.place.split(",").map(Number), size)] = value;
    const next = { ...state, [key]: cells };
    if (state.op === "max_unpool") Object.assign(next, { cells: next.cells ?? full.cells, indices: next.indices ?? full.indices });
    set(next);
  }

  function typed(event) {
    const at = fieldOf(event.target);
    if (!at) return;
    at.input.dataset.typed = "";
    const value = states.number(at.input.value), isIndex = Number.isInteger(value) && Math.abs(value) < 1e6;
    const isRight = at.name === "indices" ? isIndex : value !== undefined;
    at.input.setAttribute("aria-invalid", String(!isRight));
    if (isRight) write(at, value);
  }

  function leave(event) {
    const at = fieldOf(event.target);
    if (!at) return;
    delete at.input.dataset.typed;
    at.input.removeAttribute("aria-invalid");
    refresh();
  }

  function enter(event) {
    const at = fieldOf(event.target);
    if (!at) return;
    edited = at;
    at.input.select();
    draw.rove(places[at.name], at.place);
  }

  function keyOnField(event) {
    const at = fieldOf(event.target);
    if (!at || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const key = event.key === "Enter" ? "ArrowDown" : event.key;
    if (key === "Escape") at.input.blur();
    if (event.key !== "Enter" && !draw.leaves(at.input, key)) return;
    const next = draw.moved(at.place.split(",").map(Number), key, sizeOf(at.name));
    if (next === null) return;
    event.preventDefault();
    places[at.name].get(next.join(",")).querySelector("input").focus();
  }

  /** The keys for numbers that a telephone has no keys for: they go into the field that was edited last. */
  function put(word) {
    const at = edited?.input.offsetParent ? edited : fieldOf(by("input-grid").querySelector("input"));
    if (!at) return;
    const before = states.number(at.input.value) ?? 0, value = word === "sign" ? -before : states.number(word);
    delete at.input.dataset.typed;
    if (at.name === "indices" && !Number.isInteger(value)) return;
    write(at, value);
    at.input.focus({ preventScroll: true });
    at.input.select();
  }

  // --- code and notes -----------------------------------------------------------------------------------------------

  function showCode() {
    for (const tab of by("tabs").children) {
      const name = tab.dataset.framework, many = known.filter((entry) => NAMES[name].includes(entry.name)).length;
      tab.setAttribute("aria-selected", String(name === framework));
      tab.tabIndex = name === framework ? 0 : -1;
      tab.querySelector("small").textContent = many ? ` ${many} known difference${many === 1 ? "" : "s"}` : "";
    }
    const { text, says } = programs[framework];
    by("program").setAttribute("aria-labelledby", `tab-${framework}`);
    by("program-says").textContent = says ?? "";
    by("program-says").hidden = says === null;
    by("program").querySelector("pre").hidden = text === null;
    by("copy-code").hidden = text === null;
    by("program-text").textContent = text ?? "";
  }

  function showNotes() {
    by("notes-words").textContent = state.op === "max_unpool" ? NOT_ASKED : known.length ? SOME : NONE;
    const hasTab = (entry) => Object.values(NAMES).flat().includes(entry.name);
    const first = known.filter(hasTab), rest = known.filter((entry) => !hasTab(entry));
    by("notes-list").replaceChildren(...together(first).map(note));
    by("notes-more").hidden = !rest.length;
    by("notes-more").open = !first.length;
    by("notes-more").querySelector("summary").textContent = `Other implementations (${together(rest).length})`;
    by("notes-more").querySelector("ul").replaceChildren(...together(rest).map(note));
  }

  /** Entries that say the same of several implementations, as one list each. */
  function together(entries) {
    const found = new Map();
    for (const entry of entries) {
      const key = JSON.stringify([entry.kind, entry.what, entry.checks]);
      found.set(key, [...(found.get(key) ?? []), entry]);
    }
    return [...found.values()];
  }

  function note(entries) {
    const [{ kind, what, checks }] = entries, about = checks.includes("forward") ? "" : `${spoken(checks)}: `;
    const verb = entries.length === 1 ? kind : kind.replace(/(e?)s$/, "$1");
    const source = (entry) => element("small", {}, `${entry.title} ${entry.versions} · `, ...reference(entry.reference));
    const who = element("b", {}, `${spoken(entries.map((entry) => entry.title))} ${verb}`);
    return element("li", {}, who, ` ${about}${what}`, ...entries.map(source));
  }

  const spoken = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

  function reference(text) {
    const [, link, rest] = /^(https:\S+?)(:? .*)?$/.exec(text) ?? [];
    return link ? [element("a", { href: link, rel: "noreferrer" }, link.replace("https://", "")), rest ?? ""] : [text];
  }

  // --- once ---------------------------------------------------------------------------------------------------------

  async function copy(button, text) {
    const before = button.textContent;
    let word = "Copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      word = byHand(text) ? "Copied" : "Could not copy";
    }
    button.textContent = word;
    by("announced").textContent = word;
    setTimeout(() => (button.textContent = before), 1500);
  }

  /** Where a page from a file may not use the clipboard. */
  function byHand(text) {
    const area = element("textarea", { class: "hidden", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }

  function tabs() {
    by("tabs").replaceChildren(...Object.entries(FRAMEWORKS).map(([name, title]) => {
      const named = { id: `tab-${name}`, "aria-controls": "program", "data-framework": name };
      const tab = element("button", { type: "button", role: "tab", ...named }, title, element("small"));
      tab.addEventListener("click", () => {
        framework = name;
        if (answer) showCode();
      });
      return tab;
    }));
    by("tabs").addEventListener("keydown", (event) => {
      const names = Object.keys(FRAMEWORKS), turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!turn) return;
      framework = names[(names.indexOf(framework) + turn + names.length) % names.length];
      if (answer) showCode();
      by(`tab-${framework}`).focus();
    });
  }

  function start() {
    by("examples").append(...Object.entries(EXAMPLES).map(([title, hash]) => element("a", { href: hash }, title)));
    const backs = { one: "of the chosen output", all: "of all outputs" };
    by("backs").replaceChildren(controls.choice("back", "", backs, "one", (back) => set({ ...state, back })));
    tabs();
    const drawn = { cells: null, weight: null, indices: null, cotangent: null };
    by("random").addEventListener("click", () => set({ ...state, ...drawn, seed: 1 + Math.floor(Math.random() * 9999) }));
    by("reset").addEventListener("click", () => set(states.first()));
    by("copy").addEventListener("click", () => copy(by("copy"), location.href.split("#")[0] + states.written(state)));
    by("copy-code").addEventListener("click", () => copy(by("copy-code"), programs[framework].text));
    by("before").addEventListener("click", () => step(-1));
    by("after").addEventListener("click", () => step(1));
    by("play").addEventListener("click", play);
    by("output-grid").addEventListener("pointerover", peek);
    by("output-grid").addEventListener("pointerleave", unpeek);
    by("output-grid").addEventListener("click", (event) => outputOf(event.target) !== null && go(outputOf(event.target), true));
    by("output-grid").addEventListener("keydown", keyOnOutput);
    for (const root of Object.keys(GRIDS).map(by)) {
      root.addEventListener("input", typed);
      root.addEventListener("focusin", enter);
      root.addEventListener("focusout", leave);
      root.addEventListener("keydown", keyOnField);
    }
    for (const button of document.querySelectorAll("[data-put]")) button.addEventListener("click", () => put(button.dataset.put));
    by("settings").addEventListener("submit", (event) => event.preventDefault());
    if (matchMedia("(max-width: 760px)").matches) by("more").open = false;
    window.addEventListener("hashchange", load);
    load();
  }

  start();
})();
