"use strict";
const place = document.querySelector(".graph"), graph = document.getElementById("graph"), aside = document.querySelector("aside");
const all = graph.viewBox.baseVal, whole = [all.x, all.y, all.width, all.height];
let seen;

function show(box) {
  seen = box;
  graph.setAttribute("viewBox", box.join(" "));
}

// A long graph starts at its top, at a size that can be read.
function start() {
  const { width, height } = graph.getBoundingClientRect(), wide = Math.min(whole[2], Math.max(width / 0.9, 500));
  show([whole[0] + (whole[2] - wide) / 2, whole[1], wide, Math.min(whole[3], wide * height / width)]);
}

function point(event) {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(graph.getScreenCTM().inverse());
  return [at.x, at.y];
}

function zoom(factor, [x, y] = [seen[0] + seen[2] / 2, seen[1] + seen[3] / 2]) {
  const scale = Math.min(Math.max(1 / factor, 40 / seen[2]), 4 * Math.max(whole[2], whole[3]) / seen[2]);
  show([x - (x - seen[0]) * scale, y - (y - seen[1]) * scale, seen[2] * scale, seen[3] * scale]);
}

place.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY / 500), point(event));
}, { passive: false });

let from = null, moved = false;
place.addEventListener("pointerdown", (event) => {
  if (event.button || event.target.closest("button")) return;
  from = point(event);
  moved = false;
});
window.addEventListener("pointermove", (event) => {
  if (!from) return;
  const [x, y] = point(event), dx = x - from[0], dy = y - from[1];
  const small = 4 * seen[2] / graph.clientWidth;
  if (!moved && Math.abs(dx) + Math.abs(dy) < small) return;
  moved = true;
  place.classList.add("moving");
  show([seen[0] - dx, seen[1] - dy, seen[2], seen[3]]);
});
window.addEventListener("pointerup", () => {
  from = null;
  place.classList.remove("moving");
});
place.addEventListener("dragstart", (event) => event.preventDefault());

place.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }, step = steps[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") show(whole);
  else if (step) show([seen[0] + step[0] * seen[2] / 10, seen[1] + step[1] * seen[3] / 10, seen[2], seen[3]]);
  else return;
  event.preventDefault();
});
for (const button of document.querySelectorAll("[data-zoom]"))
  button.addEventListener("click", () => Number(button.dataset.zoom) ? zoom(Number(button.dataset.zoom)) : show(whole));

function choose(number) {
  for (const shown of document.querySelectorAll(".shown")) shown.classList.remove("shown");
  aside.classList.add("chosen");
  document.getElementById(`layer-${number}`).classList.add("shown");
  graph.querySelector(`[data-layer="${number}"]`).classList.add("shown");
  aside.scrollTop = 0;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-layer]");
  if (!link) return;
  event.preventDefault();
  if (moved && graph.contains(link)) return;
  choose(link.dataset.layer);
  if (!graph.contains(link)) {
    const box = graph.querySelector(`[data-layer="${link.dataset.layer}"]`).getBBox();
    show([box.x + box.width / 2 - seen[2] / 2, box.y + box.height / 2 - seen[3] / 2, seen[2], seen[3]]);
    place.scrollIntoView({ block: "nearest" });
  }
});
start();
const first = document.querySelector(".layer:has(figure)") || document.querySelector(".layer");
if (first) choose(first.id.slice("layer-".length));
