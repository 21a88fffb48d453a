"use strict";
// Searches and selects in the pictures of the page, which stand without it. Names are only ever set as text.
(() => {
const PAGE = 4096, SHOWN = 40, LONGEST = 240, GROUPS = ["hot", "start-up", "warm", "unprofiled"], SIDES = ["before", "after"];
const byId = (id) => document.getElementById(id);
const [panel, search, status, results, detail, tip] =
  ["panel", "search", "status", "results", "detail", "tip"].map(byId);

const make = (tag, ...inside) => {
  const element = document.createElement(tag);
  element.append(...inside.filter((part) => part !== null));
  return element;
};
const percent = (share) => {
  const p = 100 * share;
  return p >= 10 ? p.toFixed(1) + " %" : p >= 0.1 ? p.toFixed(2) + " %" : p >= 0.001 ? p.toFixed(4) + " %"
    : p > 0 ? "< 0.001 %" : "no calls";
};
const bytes = (count) => count >= 1048576 ? (count / 1048576).toFixed(2) + " MiB"
  : count >= 1024 ? Math.floor(count / 1024) + " KiB" : count + " bytes";

// What the file has of one program, its lists spread out on first use.
class Program {
  constructor(section, title) {
    this.section = section;
    this.title = title;
    this.json = JSON.parse(section.querySelector(".data").textContent);
    this.names = this.json.n;
    this.sizes = this.json.s;
    this.count = this.names.length;
    this.file = this.json.q.slice(0, 40);
    // Shares of the calls into the program, and of all recorded calls.
    this.heat = new Float64Array(this.count);
    this.ofAll = new Float64Array(this.count);
    this.group = new Int8Array(this.count).fill(-1);
    this.first = new Float64Array(this.count);
    let at = 0;
    this.json.p.forEach((step, k) => {
      at += step;
      this.heat[at] = this.json.w[k] / 1e9;
      this.ofAll[at] = this.heat[at] * this.json.t / (this.json.c || 1);
      this.group[at] = +this.json.g[k];
      this.first[at] = this.json.f[k];
    });
    this.sides = SIDES.map((_, side) => this.layout(this.json[side ? "a" : "b"]));
    this.dso = new Array(this.count);
    at = this.json.k;
    for (const [name, length] of this.json.x) for (let k = 0; k < length; k++) this.dso[at++] = name;
    this.json.v.forEach((calls, k) => this.ofAll[this.json.k + k] = calls / (this.json.c || 1));
    this.object = new Array(this.count);
    at = 0;
    for (let k = 0; k < this.json.r.length; k += 2)
      for (let left = this.json.r[k + 1]; left > 0; left--, at++)
        this.object[at] = this.json.o[this.json.r[k] - 1];
  }
  layout({ d, i }) {
    const numbers = [];
    for (let k = 0; k < i.length; k += 2) for (let n = 0; n < i[k + 1]; n++) numbers.push(i[k] + n);
    const start = new Float64Array(this.count).fill(-1);
    const pages = new Map();
    let address = 0;
    d.forEach((step, k) => {
      const number = i.length ? numbers[k] : k;
      address += step;
      start[number] = address;
      const last = Math.floor((address + Math.max(this.sizes[number], 1) - 1) / PAGE);
      for (let page = Math.floor(address / PAGE); page <= last && page - address / PAGE < 64; page++) {
        if (!pages.has(page)) pages.set(page, []);
        pages.get(page).push(number);
      }
    });
    return { start, pages };
  }
  pagesOf(side, number) {
    const start = this.sides[side].start[number];
    if (start < 0) return [];
    const last = Math.floor((start + Math.max(this.sizes[number], 1) - 1) / PAGE);
    const pages = [];
    for (let page = Math.floor(start / PAGE); page <= last && pages.length < 64; page++) pages.push(page);
    return pages;
  }
  get lower() { return this._lower ??= this.names.map((name) => name.toLowerCase()); }
  // Linkage names; empty where they are the names shown.
  get linkage() {
    if (this._linkage) return this._linkage;
    let last = "";
    return this._linkage = this.json.l.map((text) => {
      if (!text) return text;
      const [begin, end] = [0, 1].map((at) => text.charCodeAt(at) - 48);
      return last = last.slice(0, begin) + text.slice(2) + last.slice(last.length - end);
    });
  }
  get lowerLinkage() { return this._lowerLinkage ??= this.linkage.map((name) => name.toLowerCase()); }
  get byHeat() {
    return this._byHeat ??= Uint32Array.from(this.names.keys()).sort((a, b) => this.ofAll[b] - this.ofAll[a] || a - b);
  }
  get calls() {
    if (this._calls) return this._calls;
    const calls = { from: new Map(), to: new Map() };
    const add = (map, key, value) => { if (map.has(key)) map.get(key).push(value); else map.set(key, [value]); };
    const e = this.json.e;
    for (let k = 0, from = 0; k < e.length; k += 3) {
      from += e[k];
      add(calls.from, from, [e[k + 1], e[k + 2]]);
      add(calls.to, e[k + 1], [from, e[k + 2]]);
    }
    return this._calls = calls;
  }
  // Functions by first use.
  get uses() {
    return this._uses ??= [...this.names.keys()].filter((n) => this.first[n] > 0)
      .sort((a, b) => this.first[a] - this.first[b]);
  }
  // Shapes of functions and of pages, by number.
  shapes(kind, side, attribute) {
    this._shapes ??= {};
    const key = kind + side;
    if (this._shapes[key]) return this._shapes[key];
    const found = new Map();
    const where = `[data-kind=${kind}]${side === "" ? "" : `[data-side="${side}"]`} [data-${attribute}]`;
    for (const shape of this.section.querySelectorAll(where)) {
      const number = +shape.dataset[attribute];
      if (found.has(number)) found.get(number).push(shape); else found.set(number, [shape]);
    }
    return this._shapes[key] = found;
  }
}

const programs = [...document.querySelectorAll("section.program")].map((section) =>
  new Program(section, section.querySelector(".name")?.textContent ?? ""));
if (!programs.length) return;
document.body.classList.add("live");
panel.hidden = false;
// Titles of shapes are for readers without this script, which says more.
for (const title of document.querySelectorAll("[data-kind] rect > title")) title.parentNode.removeChild(title);

// Light: the shapes that belong to what is selected or pointed at.
let lit = [];
let selected = null;
const light = (choice) => {
  for (const shape of lit) shape.classList.remove("lit");
  lit = [];
  if (!choice) return;
  const { program, functions } = choice;
  const wanted = new Set();
  for (const side of [0, 1]) {
    const cells = program.shapes("map", side, "p");
    const pages = new Set(choice.page !== undefined && choice.side === side ? [choice.page]
      : functions.flatMap((number) => program.heat[number] > 0 || functions.length === 1 ? program.pagesOf(side, number) : []));
    for (const page of pages) for (const cell of cells.get(page) ?? []) wanted.add(cell);
    const bars = program.shapes("zoom", side, "f");
    for (const number of functions) for (const bar of bars.get(number) ?? []) wanted.add(bar);
  }
  const flames = program.shapes("flame", "", "f");
  if (choice.number !== undefined) for (const bar of flames.get(choice.number) ?? []) wanted.add(bar);
  lit = [...wanted, ...(choice.shapes ?? [])];
  for (const shape of lit) shape.classList.add("lit");
};
const whole = {
  function: (program, number) => ({ program, number, functions: [number] }),
  page: (program, side, page) =>
    ({ program, side, page, functions: program.sides[side].pages.get(page) ?? [] }),
  tile: (program, shape) => {
    const { l, o, rest } = shape.dataset;
    const drawn = new Set([...shape.parentNode.querySelectorAll("rect[data-o]:not([data-rest])")]
      .filter((tile) => tile.dataset.l === l).map((tile) => tile.dataset.o));
    const isHere = (file) => rest === undefined ? file === o : !drawn.has(file);
    const functions = [...program.names.keys()].filter((n) => program.dso[n] !== undefined
      ? program.dso[n] === l && isHere("")
      : program.json.q === l && program.group[n] >= 0 && program.sides[0].start[n] >= 0 && isHere(program.object[n] ?? ""));
    return { program, shapes: [shape], tile: o || l, functions };
  },
};

const facts = (pairs) => make("dl", ...pairs.filter((pair) => pair[1] !== null).flatMap(([name, value]) =>
  [make("dt", name), make("dd", value)]));
const list = (program, rows) => make("ol", ...rows.slice(0, SHOWN).map(([number, value]) => {
  const button = make("button", make("bdi", program.names[number]), make("span", value));
  button.type = "button";
  button.title = program.names[number];
  button.onclick = () => choose(whole.function(program, number));
  return make("li", button);
}), rows.length > SHOWN ? make("li", `and ${rows.length - SHOWN} more`) : null);
const heaviest = (functions, heat) => [...functions].sort((a, b) => heat[b] - heat[a]).map((n) => [n, percent(heat[n])]);
// Calls of a function, with what they are a share of.
const calls = (program, n) => {
  const isOurs = n < program.json.k;
  if (isOurs && program.group[n] < 0) return "not in the profile";
  const share = (isOurs ? program.heat : program.ofAll)[n];
  return percent(share) + (share > 0 ? isOurs ? ` of the calls into ${program.file}` : " of all recorded calls" : "");
};
const place = (program, side, number) => {
  const pages = program.pagesOf(side, number);
  if (!pages.length) return "not in this file";
  const button = make("button", `page ${pages[0]}${pages.length > 1 ? "–" + pages.at(-1) : ""}`);
  button.type = "button";
  button.onclick = () => choose(whole.page(program, side, pages[0]));
  return make("span", button);
};

const describe = {
  function({ program, number }) {
    const { from, to } = program.calls;
    const share = (ends) => {
      const all = ends.reduce((sum, [, count]) => sum + count, 0);
      return [...ends].sort((a, b) => b[1] - a[1]).map(([n, count]) => [n, percent(count / all)]);
    };
    const ours = number < program.json.k;
    const parts = [make("h2", make("bdi", program.names[number])), facts([
      ["library", program.dso[number] ?? null],
      ["file", program.object[number] ?? null],
      ["calls", calls(program, number)],
      ["size", bytes(program.sizes[number])],
      ["group", GROUPS[program.group[number]] ?? null],
      ["first use", program.first[number] ? String(program.first[number] - 1) : null],
      ["before", ours ? place(program, 0, number) : null],
      ["after", ours ? place(program, 1, number) : null],
    ])];
    for (const [title, ends] of [["Callers, by share of its calls", to.get(number)], ["Callees, by share of the calls that it makes", from.get(number)]])
      if (ends) parts.push(make("h3", title), list(program, share(ends)));
    return parts;
  },
  page({ program, side, page, functions }) {
    const sum = functions.reduce((all, n) => all + program.heat[n] / Math.max(program.pagesOf(side, n).length, 1), 0);
    return [make("h2", `Page ${page}, ${SIDES[side]}`),
      facts([["offset", bytes(page * PAGE)], ["functions", String(functions.length)], ["their calls", percent(sum)]]),
      make("h3", `Functions, by share of the calls into ${program.file}`), list(program, heaviest(functions, program.heat))];
  },
  tile({ program, tile, functions }) {
    return [make("h2", make("bdi", tile)), facts([["profiled functions", String(functions.length)]]),
      make("h3", "Functions, by share of all recorded calls"), list(program, heaviest(functions, program.ofAll))];
  },
};
const kindOf = (choice) => choice.page !== undefined ? "page" : choice.tile !== undefined ? "tile" : "function";

// A selection as the end of the page's address: its program, if there are several, and the function, page or tile.
const address = ({ program, side, page, tile, number, shapes }) => {
  const of = new URLSearchParams();
  if (programs.length > 1) of.set("program", program.title);
  if (page !== undefined) of.set(SIDES[side], page);
  else if (tile !== undefined) { of.set("library", shapes[0].dataset.l); of.set("file", tile); }
  else { of.set("function", program.linkage[number] || program.names[number]); if (program.dso[number]) of.set("library", program.dso[number]); }
  return "#" + of;
};
const remember = (choice) => {
  const to = choice ? address(choice) : location.href.split("#")[0];
  try { window.history.replaceState(null, "", to); } catch { /* Not everywhere may a page change its address. */ }
};
// Selects what the address names.
const follow = () => {
  const of = new URLSearchParams(location.hash.slice(1));
  const program = programs.find((program) => program.title === of.get("program")) ?? programs[0];
  const side = SIDES.findIndex((name) => of.has(name));
  if (side >= 0) choose(whole.page(program, side, +of.get(SIDES[side])), true);
  else if (of.has("file")) {
    const tile = [...program.section.querySelectorAll("rect[data-o]")].find((tile) =>
      tile.dataset.l === of.get("library") && (tile.dataset.o || tile.dataset.l) === of.get("file"));
    if (tile) choose(whole.tile(program, tile), true);
  } else if (of.has("function")) {
    const name = of.get("function"), library = of.get("library") ?? undefined;
    const number = [...program.names.keys()].findIndex((n) =>
      (program.linkage[n] || program.names[n]) === name && program.dso[n] === library);
    if (number >= 0) choose(whole.function(program, number), true);
  }
};
window.addEventListener("hashchange", follow);

const history = [];
const choose = (choice, isBack) => {
  if (selected && !isBack) history.push(selected);
  selected = choice;
  light(choice);
  detail.replaceChildren();
  detail.hidden = !choice;
  document.body.classList.toggle("chosen", !!choice);
  remember(choice);
  if (!choice) { status.textContent = ""; return; }
  const step = (text, act) => { const button = make("button", text); button.type = "button"; button.onclick = act; return button; };
  const steps = make("div",
    history.length ? step("Back", () => choose(history.pop(), true)) : null,
    choice.page !== undefined ? step("Previous page", () => next(choice, -1)) : null,
    choice.page !== undefined ? step("Next page", () => next(choice, 1)) : null,
    step("Close", () => { history.length = 0; choose(null, true); }),
    Object.assign(make("a", "Link"), { href: address(choice) }));
  steps.className = "steps";
  detail.append(steps, ...describe[kindOf(choice)](choice));
  detail.scrollTop = 0;
  const heading = detail.querySelector("h2").textContent;
  status.textContent = `${heading.slice(0, 120)} selected`;
  const shape = lit.find((shape) => shape.closest("[data-kind]") && isFar(shape));
  if (shape && choice.number !== undefined && document.activeElement?.closest("#panel"))
    shape.scrollIntoView({ block: "center", inline: "center" });
};
const isFar = (shape) => {
  const box = shape.getBoundingClientRect(), frame = shape.closest("[data-kind]").getBoundingClientRect();
  return box.bottom < 0 || box.top > innerHeight || box.right < frame.left || box.left > frame.right;
};
// The next page that has calls.
const next = ({ program, side, page }, step) => {
  const pages = [...program.shapes("map", side, "p").keys()].sort((a, b) => a - b);
  if (!pages.length) return;
  let to;
  if (Math.abs(step) === 1) {
    const at = pages.findIndex((p) => p >= page);
    to = pages[step > 0 ? (pages[at] === page ? at + 1 : at) : (at < 0 ? pages.length : at) - 1];
  } else {
    const wanted = page + step;
    const beyond = pages.filter((p) => step > 0 ? p > page : p < page);
    to = beyond.sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted))[0];
  }
  if (to !== undefined) choose(whole.page(program, side, to), true);
};

// What the pointer is at.
const under = (event) => {
  const shape = event.target.closest?.("[data-p],[data-f],[data-o]");
  const frame = event.target.closest?.("[data-kind]");
  const section = event.target.closest?.("section.program");
  const program = programs.find((program) => program.section === section);
  if (!program) return null;
  if (frame?.dataset.kind === "uses") {
    const number = usedAt(program, frame, event.clientX);
    return number === undefined ? null : whole.function(program, number);
  }
  if (!shape) return null;
  if (shape.dataset.p !== undefined) return whole.page(program, +frame.dataset.side, +shape.dataset.p);
  if (shape.dataset.f !== undefined) return whole.function(program, +shape.dataset.f);
  return whole.tile(program, shape);
};
const usedAt = (program, frame, x) => {
  const svg = frame.firstElementChild, box = svg.getBoundingClientRect();
  const { left, right, functions } = svg.dataset;
  const part = ((x - box.left) / box.width * 760 - left) / (right - left);
  return part < 0 || part > 1 ? undefined : program.uses[Math.min(Math.floor(part * functions), functions - 1)];
};
const mark = (program, frame, at) => {
  const svg = frame.firstElementChild, cursor = svg.querySelector(".cursor");
  const { left, right, top, bottom, functions } = svg.dataset;
  const x = +left + (right - left) * (at + 0.5) / functions;
  for (const [name, value] of [["x1", x], ["x2", x], ["y1", top], ["y2", bottom]]) cursor.setAttribute(name, value);
};
const say = (choice) => {
  const { program, functions } = choice;
  if (choice.page !== undefined || choice.tile !== undefined)
    return [choice.tile ?? `Page ${choice.page}, ${SIDES[choice.side]}`,
      ...heaviest(functions, choice.tile === undefined ? program.heat : program.ofAll).slice(0, 3).map(([n, share]) => `${program.names[n].slice(0, 80)}  ${share}`),
      functions.length > 3 ? `and ${functions.length - 3} more` : ""].join("\n");
  const n = choice.number;
  return `${program.names[n].slice(0, 200)}\n${bytes(program.sizes[n])}, ${calls(program, n)}`;
};
let pointed = null;
document.addEventListener("pointermove", (event) => {
  if (event.pointerType === "touch") return;
  const target = event.target.closest?.("[data-p],[data-f],[data-o],[data-kind=uses] svg") ?? null;
  const isUses = target?.matches("svg");
  if (target !== pointed || isUses) {
    pointed = target;
    const choice = target && under(event);
    tip.hidden = !choice || !!target.closest("table");
    light(choice ?? selected);
    if (choice) {
      if (!tip.hidden) tip.textContent = say(choice);
      if (isUses) mark(choice.program, target.parentNode, choice.program.uses.indexOf(choice.number));
    }
  }
  if (!tip.hidden) {
    const right = event.clientX > innerWidth / 2, low = event.clientY > innerHeight / 2;
    tip.style.left = right ? "auto" : event.clientX + 14 + "px";
    tip.style.right = right ? innerWidth - event.clientX + 14 + "px" : "auto";
    tip.style.top = low ? "auto" : event.clientY + 14 + "px";
    tip.style.bottom = low ? innerHeight - event.clientY + 14 + "px" : "auto";
  }
});
document.addEventListener("click", (event) => {
  if (event.target.closest("#panel")) return;
  const choice = under(event);
  tip.hidden = true;
  if (choice) choose(choice);
});

// Pictures and tables by keyboard: one stop each, arrows inside.
const labels = { map: "Pages", flame: "Calls", zoom: "Functions of the heaviest pages", uses: "First uses", tree: "Libraries and object files" };
for (const program of programs) for (const frame of program.section.querySelectorAll("[data-kind]")) {
  const { kind, side } = frame.dataset;
  frame.tabIndex = 0;
  frame.setAttribute("role", "application");
  frame.setAttribute("aria-roledescription", "picture");
  frame.setAttribute("aria-label", `${program.title ? program.title + ", " : ""}${labels[kind]}${side ? ", " + SIDES[side] : ""}: arrow keys select`);
  let at = -1;
  const go = (step) => {
    if (kind === "map") {
      const isHere = selected?.page !== undefined && selected.side === +side && selected.program === program;
      const hottest = () => [...program.sides[side].pages].map(([page, numbers]) =>
        [page, numbers.reduce((all, n) => all + program.heat[n], 0)]).sort((a, b) => b[1] - a[1])[0]?.[0];
      if (isHere) next(selected, step);
      else { const page = hottest(); if (page !== undefined) choose(whole.page(program, +side, page), true); }
      return;
    }
    const stops = kind === "uses" ? program.uses : [...frame.querySelectorAll("[data-f],[data-o]")];
    if (!stops.length) return;
    at = Math.min(Math.max(at + step, 0), stops.length - 1);
    if (kind === "uses") { mark(program, frame, at); choose(whole.function(program, stops[at]), true); }
    else choose(kind === "tree" ? whole.tile(program, stops[at]) : whole.function(program, +stops[at].dataset.f), true);
  };
  const reveal = () => lit.find((shape) => frame.contains(shape))?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const far = kind === "map" ? 32 : 10;
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: far, ArrowUp: -far }[event.key];
    if (step) { event.preventDefault(); go(step); reveal(); }
    if (event.key === "Enter" && selected) { event.preventDefault(); detail.focus(); }
  });
}
for (const row of document.querySelectorAll("tr[data-f] bdi")) {
  const button = make("button", row.textContent);
  button.type = "button";
  button.className = "plain";
  row.replaceChildren(button);
}

// How well a name, in small letters, is what was typed: 0 for the very name, with or without parameters, 1 for its end behind
// namespaces, 2 for any part.
const distance = (name, text) => {
  if (!name.startsWith(text) && !name.includes("::" + text)) return 2;
  const bare = name.length === text.length ? name : name.slice(0, name.indexOf("(", 1) < 0 ? name.length : name.indexOf("(", 1));
  return name === text || bare === text ? 0 : bare.endsWith("::" + text) ? 1 : 2;
};
// Search over all programs: the names meant first, then the heaviest.
const find = () => {
  const text = search.value.trim().toLowerCase().slice(0, LONGEST);
  results.replaceChildren();
  if (!text) { status.textContent = ""; return; }
  let count = 0;
  const found = [[], [], []];
  for (const program of programs) {
    const { lower, lowerLinkage, byHeat } = program;
    for (const number of byHeat) {
      const isShown = lower[number].includes(text);
      if (!isShown && !lowerLinkage[number]?.includes(text)) continue;
      count++;
      const near = found[lowerLinkage[number] === text ? 0 : isShown ? distance(lower[number], text) : 2];
      if (near.length < SHOWN) near.push([program, number]);
    }
  }
  for (const [program, number] of found.flat().slice(0, SHOWN)) {
    const value = [program.title, program.dso[number] ?? percent(program.heat[number])].filter(Boolean).join(", ");
    results.append(...list(program, [[number, value]]).children);
  }
  status.textContent = count === 1 ? "1 function" : `${count} functions${count > SHOWN ? `, the first ${SHOWN} shown` : ""}`;
};
search.addEventListener("input", find);
search.addEventListener("focus", () => programs.forEach((program) => program.lower && program.lowerLinkage), { once: true });
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") results.querySelector("button")?.click();
});
panel.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const stops = [search, ...results.querySelectorAll("button")];
  const at = stops.indexOf(document.activeElement);
  if (step && at >= 0 && stops[at + step]) { event.preventDefault(); stops[at + step].focus(); }
});
results.addEventListener("click", () => { if (innerWidth < 1088) { results.replaceChildren(); search.blur(); } });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); search.select(); }
  if (event.key === "Escape") { search.value = ""; find(); history.length = 0; choose(null, true); tip.hidden = true; }
});

// What is cut says that it scrolls.
const wide = [...document.querySelectorAll(".scroll,.wide,[data-kind]")];
const cue = (frame) => frame.classList.toggle("goes-on", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 4);
for (const frame of wide) frame.addEventListener("scroll", () => cue(frame), { passive: true });
const sizes = new ResizeObserver((changes) => changes.forEach((change) => cue(change.target)));
wide.forEach((frame) => sizes.observe(frame));
follow();
})();
