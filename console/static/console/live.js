// The Live page: records as they come, the newest below. What people wrote is only ever text.
"use strict";

const log = document.getElementById("log");
const MOST_LINES = 1000;
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+/g;

// The data of each record of an event, as it was sent. A parsed value would show long numbers rounded, and others not at all.
function texts(json) {
  const found = [];
  let depth = 0, start = null, last = "";
  for (const { 0: token, index } of json.matchAll(TOKEN)) {
    if (start !== null && depth === 3 && (token === "," || token === "}")) {
      found.push(json.slice(start, index).trim());
      start = null;
    }
    if (depth === 3 && token === ":" && last === '"data"') start = index + 1; // of the event, its records and one of them
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    last = token;
  }
  return found;
}

if (log) {
  const told = document.getElementById("told"), hold = document.getElementById("hold");
  const lags = new Map();
  let held = [], seen = 0;

  const line = (cells, told) => {
    const row = document.createElement("p");
    if (told) row.className = "told";
    for (const cell of cells) {
      const text = document.createElement("bdi");
      text.textContent = cell;
      text.title = cell;
      row.append(text);
    }
    return row;
  };
  const show = (row) => {
    if (hold.getAttribute("aria-pressed") === "true") {
      held.push(row);
      if (held.length > MOST_LINES) held.shift();
      return;
    }
    const below = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(row);
    while (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
    if (below) log.scrollTop = log.scrollHeight;
  };
  const report = () => {
    const behind = [...lags.values()].reduce((sum, lag) => sum + lag, 0);
    const kept = held.length ? `, ${held.length.toLocaleString("en")} held back` : "";
    told.textContent = `${seen.toLocaleString("en")} records, ${behind.toLocaleString("en")} behind${kept}`;
  };

  follow(log.dataset.tail, {
    record: ({ topic, records, to_seq, head_seq }, json) => {
      const data = texts(json);
      for (const [place, record] of records.entries()) {
        seen += 1;
        const time = new Date(record.$ts).toISOString().slice(11, 23);
        const about = [record.$tag, record.$node && `by ${record.$node}`].filter(Boolean).join(" ");
        show(line([topic, `#${record.$seq}`, time, about, data[place]]));
      }
      lags.set(topic, head_seq - to_seq);
      report();
    },
    "caught-up": ({ topic }) => { lags.set(topic, 0); report(); },
    tombstone: ({ topic, reason, gap_from, gap_to, lost_from }) => {
      const event = reason === "recreated"
        ? `was deleted and created again: it continues above seq ${gap_to}`
        : `lost seqs ${gap_from} to ${gap_to} (${reason})`;
      const back = lost_from < gap_from ? `; seqs ${lost_from} to ${gap_from - 1} were shown, and a crash took them back` : "";
      show(line([`${topic} ${event}${back}`], true));
    },
    "topic-deleted": ({ topic }) => show(line([`${topic} was deleted`], true)),
  });
  hold.addEventListener("click", () => {
    const now = hold.getAttribute("aria-pressed") !== "true";
    hold.setAttribute("aria-pressed", now);
    hold.textContent = now ? "Go on" : "Pause";
    if (!now) {
      const rows = held;
      held = [];
      rows.forEach(show);
    }
    report();
  });
}
