// The graph: numbers and colours as they change, troubles, zoom and pan. Where things are, the server says.
"use strict";

const graph = document.querySelector("[data-graph]"); // scrolls
const picture = () => document.getElementById("network");
const TROUBLE = ["blocked", "stalled", "old"];
const LOOKS = ["bad", "unsure"]; // of a dest whose records wait
const LEAST = 0.05, MOST = 4; // of the scale
let scale = 1; // 1: letters of 12 px, so the picture begins where it can be read
let structure = null;

function number(id, [look, width, words, mark, under, seconds]) {
  const edge = document.getElementById(id);
  if (!edge) return;
  edge.setAttribute("class", ["edge", look, edge.classList.contains("lit") ? "lit" : ""].join(" "));
  edge.querySelector(".line").setAttribute("stroke-width", width);
  edge.querySelector("title").textContent = words;
  [mark, under].forEach((text, place) => (edge.querySelectorAll("tspan")[place].textContent = text));
  const link = edge.parentNode;
  link.setAttribute("aria-label", [link.dataset.name, mark, under].filter(Boolean).join(" "));
  const flow = edge.querySelector(".flow");
  flow.classList.toggle("still", !seconds);
  flow.style.setProperty("--seconds", `${seconds}s`);
}

function figure(id, [text, words, look]) {
  const node = document.getElementById(id);
  if (!node) return;
  node.querySelector(".figure").textContent = text;
  node.querySelector("title").textContent = words;
  node.classList.remove(...LOOKS);
  if (look) node.classList.add(look);
}

// Names the routers in trouble, each with a button that leads to its place in the picture.
function troubles(edges) {
  const list = document.querySelector("[data-troubles]");
  // The cause of a chain comes first, and what it holds up after it.
  const found = Object.entries(edges).filter(([, [look]]) => TROUBLE.includes(look.split(" ")[0]) || look.endsWith(" cause"));
  found.sort(([, [one]], [, [other]]) => one.endsWith("held-up") - other.endsWith("held-up"));
  list.hidden = !found.length;
  list.querySelector("strong").textContent = `${found.length} ${found.length === 1 ? "router" : "routers"} in trouble`;
  const kept = new Map([...list.querySelectorAll("button")].map((button) => [button.dataset.edge, button]));
  for (const [id, [looks, , words]] of found) {
    const [look, role] = looks.split(" ");
    const button = kept.get(id) ?? list.appendChild(Object.assign(document.createElement("button"), { type: "button", className: "button" }));
    kept.delete(id);
    button.dataset.edge = id;
    button.textContent = `${document.getElementById(id)?.parentNode.dataset.name ?? id} ${look === "old" ? "is far behind" : `is ${look}`}${role === "held-up" ? ", held up" : ""}`;
    button.title = words;
  }
  for (const button of kept.values()) button.remove();
}

// The graph is another one: fetch its picture. The frame stays scrolled to the place that is being looked at.
async function redraw() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("network");
  if (!fresh || !picture()) return location.reload();
  picture().replaceWith(fresh);
  resize(scale);
  miniature();
  choose(chosen);
}

function size() {
  return picture().getAttribute("viewBox").split(" ").slice(2).map(Number);
}

// Draws at another scale. The point of the picture that is at (x, y) of the frame stays there.
function resize(next, x = graph.clientWidth / 2, y = graph.clientHeight / 2) {
  const ratio = next / scale;
  const [left, top] = [(graph.scrollLeft + x) * ratio - x, (graph.scrollTop + y) * ratio - y];
  const [width, height] = size();
  scale = next;
  picture().setAttribute("width", Math.round(width * scale));
  picture().setAttribute("height", Math.round(height * scale));
  graph.scrollTo(left, top);
  outline();
}

// By a factor. 0: all of it.
function zoom(factor, x, y) {
  const [width, height] = size();
  const whole = Math.min(graph.clientWidth / width, graph.clientHeight / height, 1);
  resize(factor ? Math.min(Math.max(scale * factor, LEAST), MOST) : whole, x, y);
}

// The minimap: all of the picture, and a frame around what is seen. It is there while the picture is larger than its frame.
const minimap = document.querySelector(".minimap");
function outline() {
  const [width, height] = size();
  minimap.toggleAttribute("hidden", width * scale <= graph.clientWidth + 1 && height * scale <= graph.clientHeight + 1);
  minimap.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const view = { x: graph.scrollLeft / scale, y: graph.scrollTop / scale, width: graph.clientWidth / scale, height: graph.clientHeight / scale };
  for (const [name, value] of Object.entries(view)) minimap.lastElementChild.setAttribute(name, value);
}

function miniature() {
  minimap.replaceChildren(...[...document.querySelectorAll("#network .node rect")].map((rect) => rect.cloneNode()), minimap.lastElementChild);
  outline();
}

function show(element) {
  element.scrollIntoView({ block: "center", inline: "center" });
  element.closest("a")?.focus({ preventScroll: true });
}

// A chosen router or topic has a panel beside the picture. Its ways up and down are lit, and the address keeps the choice.
const panel = document.querySelector(".panel");
const asked = () => decodeURIComponent(location.hash.slice(1));
let chosen = "";

function light(id) {
  const edges = [...document.querySelectorAll("#network .edge")];
  for (const each of document.querySelectorAll("#network .lit")) each.classList.remove("lit");
  const start = document.getElementById(id);
  graph.classList.toggle("lighting", Boolean(start));
  if (!start) return;
  start.classList.add("lit");
  for (const [here, there] of [["from", "to"], ["to", "from"]]) {
    const seen = new Set([start.dataset[there] ?? id]);
    for (const node of seen) {
      document.getElementById(node)?.classList.add("lit");
      for (const edge of edges) {
        if (edge.dataset[here] !== node) continue;
        edge.classList.add("lit");
        seen.add(edge.dataset[there]);
      }
    }
  }
}

async function choose(id) {
  const address = id && document.getElementById(id)?.closest("a")?.dataset.panel;
  chosen = address ? id : "";
  light(chosen);
  if (location.hash.slice(1) !== encodeURIComponent(chosen)) history.replaceState(null, "", chosen ? `#${encodeURIComponent(chosen)}` : location.pathname + location.search);
  const answer = address && (await fetch(address));
  if (chosen !== (address ? id : "")) return; // another one was chosen meanwhile
  panel.hidden = !(answer && answer.ok && !answer.redirected); // redirected: to the login
  outline();
  if (!panel.hidden) panel.lastElementChild.innerHTML = await answer.text();
}

// Finds what has this name, or else what has it in its name, the topics first.
function seek(text) {
  const wanted = text.trim().toLowerCase();
  const name = (each) => (each.parentNode.dataset.name ?? each.querySelector("title").textContent.split(/: |, /)[0]).toLowerCase();
  const all = wanted ? [...document.querySelectorAll("#network .node"), ...document.querySelectorAll("#network a > .edge")] : [];
  const found = all.find((each) => name(each) === wanted) ?? all.find((each) => name(each).includes(wanted));
  if (found) show(found.querySelector(".tip, rect"));
  return found?.id ?? "";
}

function listen() {
  let from = null, moved = false;
  graph.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // it scrolls
    event.preventDefault();
    const frame = graph.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.18 : 0.85, event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  graph.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.target === graph) return; // a finger scrolls, and so does a scroll bar
    from = [event.clientX + graph.scrollLeft, event.clientY + graph.scrollTop];
    moved = false;
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const [left, top] = [from[0] - event.clientX, from[1] - event.clientY];
    moved ||= Math.hypot(left - graph.scrollLeft, top - graph.scrollTop) > 4;
    if (moved) graph.scrollTo(left, top);
  });
  addEventListener("pointerup", () => { from = null; });
  graph.addEventListener("dragstart", (event) => event.preventDefault());
  graph.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-panel]:not([data-panel=''])");
    if (moved) event.preventDefault(); // it was a pan
    else if (link && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault();
      choose(link.firstElementChild.id);
    }
    moved = false;
  }, true);
  panel.querySelector("button").addEventListener("click", () => choose(""));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen) {
      document.getElementById(chosen)?.closest("a").focus();
      choose("");
    }
  });
  const field = document.querySelector("[data-seek]");
  field.addEventListener("change", () => choose(seek(field.value)));
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    event.stopImmediatePropagation(); // the field for all of the site keeps Ctrl-K
    field.focus();
  }, true);
  graph.addEventListener("scroll", outline);
  addEventListener("resize", outline);
  minimap.addEventListener("click", (event) => {
    const box = minimap.getBoundingClientRect(), [width, height] = size();
    const [x, y] = [((event.clientX - box.left) / box.width) * width * scale, ((event.clientY - box.top) / box.height) * height * scale];
    graph.scrollTo(x - graph.clientWidth / 2, y - graph.clientHeight / 2);
  });
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
  document.querySelector("[data-troubles]").addEventListener("click", ({ target }) => {
    const edge = target.dataset.edge && document.getElementById(target.dataset.edge);
    if (!edge) return;
    show(edge.querySelector(".tip")); // beside the dest
    choose(edge.id);
  });
  document.querySelector("[data-only-trouble]").addEventListener("change", ({ target }) => graph.classList.toggle("only-trouble", target.checked));
}

// The slider: it says the time while it moves, and shows it when it stands.
const slider = document.querySelector("[data-slider]");
slider?.elements.at.addEventListener("input", ({ target }) => {
  const isPast = target.value !== target.max;
  slider.querySelector("output").textContent = isPast ? `${new Date(Number(target.value)).toISOString().slice(0, 16).replace("T", " ")} UTC` : "now";
});
slider?.elements.at.addEventListener("change", () => slider.requestSubmit());

if (graph) {
  const [name, subject] = [graph.dataset.graph.slice(0, 5), graph.dataset.graph.slice(6)];
  follow(`/admin/stream/${name}/${encodeURIComponent(subject)}`, {
    graph: ({ body }) => {
      const told = JSON.parse(body);
      if (structure !== null && structure !== told.structure) redraw();
      structure = told.structure;
      for (const [id, edge] of Object.entries(told.edges)) number(id, edge);
      for (const [id, node] of Object.entries(told.nodes)) figure(id, node);
      troubles(told.edges);
    },
  });
  document.querySelector(".zoom").hidden = false;
  listen();
  miniature();
  addEventListener("hashchange", () => choose(asked()));
  if (asked()) choose(asked());
}
