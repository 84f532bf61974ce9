"use strict";

// What the page that tries the API lacks: it follows the system's colours, shows streams, and knows which session it made.

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);

const STREAM = "/v0/watch/{wid}";
const SHOWN_MS = 2000;
const fetched = window.fetch.bind(window);

window.fetch = async (...asked) => {
  const answer = await fetched(...asked);
  if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
    return new Response(await soFar(answer.body), answer);
  }
  if (answer.ok && new URL(answer.url).pathname === "/v0/watch") fill((await answer.clone().json()).wid);
  return answer;
};

// A stream does not end, and the page shows an answer when it has ended: so it ends here, after what came at once.
async function soFar(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  setTimeout(() => reader.cancel(), SHOWN_MS);
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  return text;
}

// The session that was just made is the one to try the stream with.
function fill(wid) {
  const parameters = ui.specSelectors.specJson().getIn(["paths", STREAM, "get", "parameters"]);
  ui.specActions.changeParamByIdentity([STREAM, "get"], parameters.find((each) => each.get("name") === "wid"), wid);
}
