"use strict";
(() => {
  const open = () => {
    const place = location.hash && document.getElementById(location.hash.slice(1));
    if (!place) return;
    for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    place.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", open);
  open();
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.previousElementSibling.textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
        document.execCommand("copy");
      }
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1200);
    });
  }
  const filter = document.querySelector(".filter");
  if (!filter) return;
  filter.hidden = false;
  const search = filter.querySelector("input[type=search]");
  const boxes = [...filter.querySelectorAll("input[type=checkbox]")];
  const said = filter.querySelector("output");
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const some = words.length > 0 || verdicts.size < boxes.length;
    let shown = 0;
    for (const entry of document.querySelectorAll("[data-name]")) {
      const name = entry.dataset.name.toLowerCase();
      entry.hidden = !(verdicts.has(entry.dataset.verdict) && words.every((word) => name.includes(word)));
      if (!entry.hidden && !entry.classList.contains("failing")) shown++;
    }
    for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector("[data-name]:not([hidden])");
    said.textContent = some ? `${shown} shown` : "";
  };
  filter.addEventListener("input", apply);
})();
