/* Grids of cells: how an array of one to three axes is laid out, filled, and moved about in by keys. No arithmetic. */
const draw = (() => {
  "use strict";

  const { flatOf, isIn, placeOf } = states;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  const named = (place) => (place.length === 1 ? String(place[0]) : `(${place.join(", ")})`).replace(/-/g, "−");

  /** A number in the room of a cell; `digits` are those that count. */
  function short(value, digits = 3) {
    if (value === null || value === undefined) return "";
    if (Object.is(value, -0)) return "−0";
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
    const text = Number.isInteger(value) && Math.abs(value) < 1e5 ? String(value) : String(Number(value.toPrecision(digits)));
    return text.replace("e+", "e").replace(/-/g, "−");
  }

  /** The same in at most five or six signs. */
  function tiny(value) {
    const size = Math.abs(value);
    if (!Number.isFinite(value) || Number.isInteger(value)) return short(value);
    return short(size >= 100 ? Number(value.toFixed(0)) : size >= 0.001
      ? Number(value.toFixed(size < 1 ? 3 : size < 10 ? 2 : 1)) : value, size < 0.001 ? 1 : 4);
  }

  /** A number into a cell; long ones are smaller. */
  function put(made, text) {
    const box = made.querySelector("input");
    if (box) fill(box, text);
    else made.textContent = text;
    const many = (box ? box.value : text).length;
    made.classList.toggle("long", many === 4);
    made.classList.toggle("longer", many > 4);
  }

  const exact = (value) => states.numbered(value).replace("inf", "∞").replace("nan", "NaN").replace(/-/g, "−");

  // --- layout -------------------------------------------------------------------------------------------------------

  /** Draws the places from `low` to before `high`, and gives them by name; `make(place)` is what stands in each. */
  function grid(root, low, high, make) {
    const rank = low.length, slices = rank === 3 ? range(low[0], high[0]) : [null], places = new Map();
    const rows = rank === 1 ? [null] : range(low.at(-2), high.at(-2)), columns = range(low.at(-1), high.at(-1));
    const parts = slices.map((slice) => {
      const table = element("div", { class: "grid" });
      table.style.setProperty("--columns", columns.length);
      table.append(element("span", { class: "axis corner", "aria-hidden": "true" }));
      table.append(...columns.map((column) => axisLabel(column)));
      for (const row of rows) {
        table.append(rank === 1 ? element("span", { class: "axis", "aria-hidden": "true" }) : axisLabel(row));
        for (const column of columns) {
          const place = [slice, row, column].filter((i) => i !== null), made = make(place);
          made.dataset.place = place.join(",");
          places.set(made.dataset.place, made);
          table.append(made);
        }
      }
      const head = slice === null ? [] : [element("p", { class: "slice-name" }, `axis 0: ${named([slice])}`)];
      const part = element("div", { class: "slice" }, ...head, table);
      part.style.setProperty("--columns", columns.length);
      return part;
    });
    root.replaceChildren(...parts);
    root.classList.toggle("many", slices.length > 1);
    return places;
  }

  const range = (low, high) => Array.from({ length: Math.max(0, high - low) }, (_, i) => low + i);
  const axisLabel = (i) => element("span", { class: "axis", "aria-hidden": "true" }, named([i]));

  /** What is drawn once for each layout, and only filled after that: so a field that is typed in keeps its focus. */
  function keeper(root) {
    let layout = null, places = new Map();
    return (low, high, make, key = "") => {
      const wanted = JSON.stringify([low, high, key]);
      if (wanted !== layout) places = grid(root, low, high, make);
      layout = wanted;
      return places;
    };
  }

  // --- fields and keys ----------------------------------------------------------------------------------------------

  function field(label) {
    const input = element("input", { type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false",
      tabindex: "-1", "aria-label": label });
    return element("div", { class: "place cell" }, input, element("small"));
  }

  /** Where a key leads from a place: the arrows along the last two axes, page keys along the first of three. */
  function moved(place, key, size) {
    const steps = { ArrowLeft: [-1, 1], ArrowRight: [-1, -1], ArrowUp: [-2, 1], ArrowDown: [-2, -1], PageUp: [-3, 1],
      PageDown: [-3, -1] };
    if (key === "Home") return size.map(() => 0);
    if (key === "End") return size.map((n) => n - 1);
    if (!(key in steps) || place.length + steps[key][0] < 0) return null;
    const [axis, back] = steps[key], next = [...place];
    next[place.length + axis] -= back;
    return isIn(next, size) ? next : wrapped(place, key, size);
  }

  /** Left and right go on in the row before or after. */
  function wrapped(place, key, size) {
    const flat = flatOf(place, size) + (key === "ArrowRight" ? 1 : -1), most = states.product(size);
    return (key === "ArrowRight" || key === "ArrowLeft") && flat >= 0 && flat < most ? placeOf(flat, size) : place;
  }

  /** Arrow keys in a field move within its text first, unless all of it is selected. */
  function leaves(input, key) {
    if (key === "Home" || key === "End") return false;
    const [start, end, many] = [input.selectionStart, input.selectionEnd, input.value.length];
    if (start === 0 && end === many) return true;
    if (key === "ArrowLeft") return start === 0 && end === 0;
    return key === "ArrowRight" ? start === many : true;
  }

  /** One stop of the Tab key for a whole grid: the field or button that was used last. */
  function rove(places, focused) {
    const chosen = places.get(focused) ?? places.values().next().value;
    for (const each of places.values()) {
      const target = each.querySelector("input") ?? each;
      if (target.matches("input, button")) target.tabIndex = each === chosen ? 0 : -1;
    }
  }

  function fill(input, text) {
    if (document.activeElement !== input || input.dataset.typed === undefined) input.value = text;
  }

  return Object.freeze({ element, exact, field, keeper, leaves, moved, named, put, rove, short, tiny });
})();
