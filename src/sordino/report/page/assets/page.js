"use strict";
(() => {
const root = document.documentElement, tip = document.getElementById("tip");
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
root.classList.add("js");

/* Theme: as the system says, or as chosen; a browser that keeps nothing for files still switches. */
const themes = ["auto", "light", "dark"], themeButton = document.getElementById("theme");
const kept = { get() { try { return localStorage.getItem("sordino-theme"); } catch { return null; } },
               set(value) { try { localStorage.setItem("sordino-theme", value); } catch { /* not kept */ } } };
function setTheme(name) {
  if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
  themeButton.textContent = `Theme: ${name}`;
  kept.set(name);
}
setTheme(themes.includes(kept.get()) ? kept.get() : "auto");
themeButton.addEventListener("click", () => setTheme(themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % 3]));

/* The tip: what lies under the pointer, or was reached by arrow keys. It is read out, because it is a live region. */
function showTip(words, x, y) {
  if (tip.textContent !== words) tip.textContent = words;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${y - box.height - 12 > 4 ? y - box.height - 12 : y + 18}px`;
}
function hideTip(plots) { tip.hidden = true; if (plots) light(plots, null); }
function light(plots, hot) {
  all(".hot", plots).forEach((one) => one.classList.remove("hot"));
  plots.classList.toggle("lit", Boolean(hot));
  if (!hot) return;
  hot.classList.add("hot");
  if (hot.dataset.at) all(`.thread[data-s="${hot.dataset.s}"]`, plots).forEach((one) => one.classList.add("hot"));
}

/* Everything in a drawing that can be pointed at: places in its own coordinates, with words. */
const spots = new WeakMap();
function spotsOf(svg) {
  if (!spots.has(svg)) spots.set(svg, svg.dataset.lines ? onLines(svg) : svg.dataset.heat ? onHeat(svg) : onPoints(svg));
  return spots.get(svg).filter((spot) => !spot.of || !spot.of.classList.contains("gone"));
}
const onPoints = (svg) => all("[data-at]", svg).map((of) => {
  const [x, y] = of.dataset.at.split(",").map(Number);
  return { x, y, of, words: of.dataset.tip };
});
function onLines(svg) {
  const facts = JSON.parse(svg.dataset.lines);
  const value = ([a, b], place) => a + b * place;
  const shown = (number) => facts.percent ? `${(100 * number).toFixed(2)} %` : String(Number(number.toPrecision(3)));
  return all(".lined", svg).flatMap((of) => {
    const numbers = of.querySelector(".line").getAttribute("d").match(/-?[\d.]+/g).map(Number);
    return numbers.flatMap((x, at) => at % 2 ? [] : [{ x, y: numbers[at + 1], of,
      words: `${of.dataset.name}\n${facts.word} ${facts.whole ? Math.round(value(facts.x, x)) : Number(value(facts.x, x).toPrecision(2))}: ${shown(value(facts.y, numbers[at + 1]))}` }]);
  });
}
function onHeat(svg) {
  const facts = JSON.parse(svg.dataset.heat), [left, top, wide, tall] = facts.at;
  const shown = (number) => number === null ? "nothing" : facts.percent ? `${(100 * number).toFixed(1)} %` : String(number);
  return facts.values.flatMap((row, down) => row.map((value, along) => ({ x: left + (along + .5) * wide, y: top + (down + .5) * tall,
    cell: true, words: `${facts.columns[along]}, ${facts.rows[down]}: ${shown(value)}` })));
}
const visible = (plots) => all(".plot svg", plots).find((svg) => svg.getBoundingClientRect().width > 0);
function reach(plots, svg, spot) {
  const box = svg.getBoundingClientRect(), zoom = box.width / svg.viewBox.baseVal.width;
  showTip(spot.words, box.left + spot.x * zoom, box.top + spot.y * zoom);
  light(plots, spot.of);
}
function nearest(svg, x, y) {
  let found = null, least = 28 * 28;
  for (const spot of spotsOf(svg)) {
    const far = (spot.x - x) ** 2 + (spot.y - y) ** 2;
    if (far < least) { least = far; found = spot; }
  }
  return found;
}
let byKeys = null;
for (const plots of all(".plots")) {
  let at = -1;
  plots.addEventListener("pointermove", (event) => {
    byKeys = null;
    const svg = visible(plots);
    if (!svg) return;
    const box = svg.getBoundingClientRect(), zoom = box.width / svg.viewBox.baseVal.width;
    const spot = nearest(svg, (event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom);
    if (spot) reach(plots, svg, spot); else hideTip(plots);
  });
  plots.addEventListener("pointerleave", () => hideTip(plots));
  plots.addEventListener("blur", () => { at = -1; byKeys = null; hideTip(plots); });
  plots.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hideTip(plots);
    const svg = visible(plots), every = svg ? spotsOf(svg) : [];
    if (!every.length || !(step || event.key === "Home" || event.key === "End")) return;
    event.preventDefault();
    at = event.key === "Home" ? 0 : event.key === "End" ? every.length - 1 : (at + step + every.length + (at < 0 && step < 0 ? 1 : 0)) % every.length;
    reach(plots, svg, every[at]);
    byKeys = () => reach(plots, svg, every[at]);
  });
}
addEventListener("scroll", () => { if (byKeys && !tip.hidden) byKeys(); else tip.hidden = true; }, { passive: true });

/* Legends: a press hides a series in the figures that the legend is for, and pointing at a name lights it up. */
for (const key of all(".key")) {
  const figures = key.closest(".linked"), every = all(".plots", figures);
  key.addEventListener("click", () => {
    const shown = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", String(shown));
    all(`.plots [data-s="${key.dataset.s}"]`, figures).forEach((one) => one.classList.toggle("gone", !shown));
  });
  key.addEventListener("pointerenter", () => every.forEach((plots) => {
    const hot = all(`[data-s="${key.dataset.s}"]`, plots);
    plots.classList.toggle("lit", hot.length > 0);
    hot.forEach((one) => one.classList.add("hot"));
  }));
  key.addEventListener("pointerleave", () => every.forEach((plots) => light(plots, null)));
}

/* Tabs, with the keys that tabs have. */
for (const tabbed of all(".tabbed")) {
  const tabs = all(":scope > [role=tablist] > [role=tab]", tabbed);
  const choose = (chosen, focus) => tabs.forEach((tab) => {
    const here = tab === chosen;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !here;
    if (here && focus) tab.focus();
  });
  tabs.forEach((tab, number) => {
    tab.addEventListener("click", () => choose(tab, false));
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      choose(tabs[(next + tabs.length) % tabs.length], true);
    });
  });
  choose(tabs[0], false);
}

/* Sorting, and searching. */
const numberOf = (cell) => cell.dataset.v === undefined ? NaN : cell.dataset.v === "inf" ? Infinity : Number(cell.dataset.v);
for (const table of all("table.sortable")) {
  const heads = all("thead th", table), body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((one) => one.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const sign = up ? 1 : -1, rows = [...body.rows];
    rows.sort((one, other) => {
      const [a, b] = [one.cells[column], other.cells[column]];
      if (head.dataset.kind === "text") return sign * a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
      const [x, y] = [numberOf(a), numberOf(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return x === y ? 0 : sign * (x < y ? -1 : 1);
    });
    body.append(...rows);
  }));
}
const search = document.getElementById("search");
search?.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), rows = all("#runs-table tbody tr");
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  document.getElementById("found").textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
});

/* Two configurations beside each other. */
const held = document.getElementById("beside-data");
if (held) {
  const { keys, values } = JSON.parse(held.textContent), place = document.getElementById("beside");
  const chosen = [0, 1].map((number) => document.getElementById(`beside-${number}`));
  const cell = (tag, words, scope) => { const made = document.createElement(tag); made.textContent = words; if (scope) made.scope = scope; return made; };
  const row = (...cells) => { const made = document.createElement("tr"); made.append(...cells); return made; };
  const draw = () => {
    const [one, other] = chosen.map((select) => values[Number(select.value)]);
    const differ = keys.map((key, at) => [key, one[at], other[at]]).filter(([, a, b]) => a !== b);
    if (!differ.length) { place.replaceChildren(cell("p", "They have the same settings.")); return; }
    const table = document.createElement("table"), head = table.createTHead(), body = table.createTBody();
    head.append(row(cell("th", "setting", "col"), ...chosen.map((select) => cell("th", select.selectedOptions[0].textContent, "col"))));
    body.append(...differ.map(([key, a, b]) => row(cell("th", key, "row"), cell("td", a), cell("td", b))));
    place.replaceChildren(table);
  };
  chosen.forEach((select) => select.addEventListener("change", draw));
  draw();
}

/* The navigation says where the reader is. */
const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) {
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "-20% 0px -70% 0px" });
all("main > section").forEach((section) => seen.observe(section));
})();
