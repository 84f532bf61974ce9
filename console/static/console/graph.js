// The graph: numbers and colours as they change, zoom and pan. Where things are, the server says.
"use strict";

const graph = document.querySelector("[data-graph]");
const picture = () => document.getElementById("network");

function number(id, [look, width, words]) {
  const edge = document.getElementById(id);
  if (!edge) return;
  edge.setAttribute("class", `edge ${look}`);
  edge.querySelector(".line").setAttribute("stroke-width", width);
  edge.querySelector("title").textContent = words;
}

// The graph is another one: fetch its picture, and keep the place that is being looked at.
async function redraw() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("network");
  if (!fresh || !picture()) return location.reload();
  const [, , width, height] = picture().getAttribute("viewBox").split(" ").map(Number);
  const whole = picture().dataset.whole;
  const before = picture().getAttribute("viewBox");
  picture().replaceWith(fresh);
  fresh.dataset.whole = fresh.getAttribute("viewBox");
  if (before !== whole && width && height) fresh.setAttribute("viewBox", before);
  listen();
}

// A graph of many ranks and few rows would be a hairline: it begins at its left end, and "Fit" shows all of it.
const SHAPE = 3, LEAST_WIDTH = 1800;
function beginAtLeft() {
  const [x, y, width, height] = box();
  const part = Math.max(height * SHAPE, LEAST_WIDTH);
  if (width > 2 * part) picture().setAttribute("viewBox", [x, y, part, height].join(" "));
}

let structure = null;
if (graph) {
  picture().dataset.whole = picture().getAttribute("viewBox");
  beginAtLeft();
  const [name, subject] = [graph.dataset.graph.slice(0, 5), graph.dataset.graph.slice(6)];
  follow(`/admin/stream/${name}/${encodeURIComponent(subject)}`, {
    graph: ({ body }) => {
      const told = JSON.parse(body);
      if (structure !== null && structure !== told.structure) redraw();
      structure = told.structure;
      for (const [id, edge] of Object.entries(told.edges)) number(id, edge);
      for (const [id, [figure, words]] of Object.entries(told.nodes)) {
        const node = document.getElementById(id);
        if (!node) continue;
        node.querySelector(".figure").textContent = figure;
        node.querySelector("title").textContent = words;
      }
    },
  });
  graph.querySelector(".zoom").hidden = false;
  for (const button of graph.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
  listen();
}

function box() {
  return picture().getAttribute("viewBox").split(" ").map(Number);
}

// By a factor, around a point given as shares of the picture. 0: all of it.
function zoom(factor, shareX = 0.5, shareY = 0.5) {
  if (!factor) return picture().setAttribute("viewBox", picture().dataset.whole);
  const [x, y, width, height] = box();
  picture().setAttribute(
    "viewBox",
    [x + width * (1 - factor) * shareX, y + height * (1 - factor) * shareY, width * factor, height * factor].join(" "),
  );
}

function listen() {
  const svg = picture();
  let from = null, moved = false;
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && graph.classList.contains("small")) return; // a small picture lets the page scroll
    event.preventDefault();
    const frame = svg.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 0.85 : 1.18, (event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height);
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY, ...box()]; moved = false; });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const [startX, startY, x, y, width, height] = from;
    const frame = svg.getBoundingClientRect();
    const scale = Math.max(width / frame.width, height / frame.height);
    moved ||= Math.hypot(event.clientX - startX, event.clientY - startY) > 4;
    if (moved) svg.setAttribute("viewBox", [x - (event.clientX - startX) * scale, y - (event.clientY - startY) * scale, width, height].join(" "));
  });
  addEventListener("pointerup", () => { from = null; });
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("click", (event) => { if (moved) event.preventDefault(); }, true); // it was a pan
}
