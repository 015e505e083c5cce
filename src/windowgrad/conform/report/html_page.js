"use strict";
(() => {
  const form = document.querySelector(".filters");
  const findings = [...document.querySelectorAll(".finding")];
  const sections = [...document.querySelectorAll(".implementation")];
  const cells = [...document.querySelectorAll(".matrix button")];
  const count = document.getElementById("count");
  const unfold = document.getElementById("unfold");
  const shown = () => findings.filter((finding) => !finding.hidden);

  function refresh() {
    const wanted = [...new FormData(form)].filter(([, value]) => value);
    for (const finding of findings) {
      finding.hidden = wanted.some(([name, value]) => finding.dataset[name] !== value);
    }
    for (const section of sections) {
      section.hidden = wanted.length > 0 && !section.querySelector(".finding:not([hidden])");
    }
    for (const cell of cells) {
      cell.setAttribute("aria-pressed", String(wanted.length === 2 && wanted.every(([name, value]) => cell.dataset[name] === value)));
    }
    count.textContent = `${shown().length} of ${findings.length} shown`;
    name();
  }

  function name() {
    unfold.textContent = shown().every((finding) => finding.open) ? "Fold all" : "Unfold all";
    unfold.hidden = shown().length === 0;
  }

  function choose(values) {
    for (const select of form.querySelectorAll("select")) select.value = values[select.name] ?? "";
    refresh();
  }

  function follow() {
    const finding = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!finding || !finding.matches(".finding")) return;
    if (finding.hidden) choose({});
    finding.open = true;
    finding.scrollIntoView();
    finding.querySelector("summary").focus({ preventScroll: true });
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  for (const cell of cells) {
    cell.addEventListener("click", () => {
      choose({ implementation: cell.dataset.implementation, rule: cell.dataset.rule });
      shown()[0].open = true;
      const heading = document.getElementById("differences");
      heading.scrollIntoView();
      heading.focus({ preventScroll: true });
    });
  }
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", () => copy(button));
  for (const finding of findings) finding.addEventListener("toggle", name);
  form.addEventListener("change", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refresh));
  unfold.addEventListener("click", () => {
    const open = shown().some((finding) => !finding.open);
    for (const finding of shown()) finding.open = open;
  });
  addEventListener("hashchange", follow);

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = shown().filter((finding) => !finding.open);
    for (const finding of folded) finding.open = true;
  });
  addEventListener("afterprint", () => { for (const finding of folded) finding.open = false; });

  refresh();
  follow();
  addEventListener("load", follow); // by then the browser has followed the link itself, and taken the focus away
})();
