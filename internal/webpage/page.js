// The only script of the pages, which work without it. It moves the focus between a chart's columns,
// and keeps the changing parts of the board's first page up to date by server-sent events.
"use strict";
document.addEventListener("keydown", event => {
  const column = event.target.closest(".hits > div");
  if (!column) return;
  const all = [...column.parentElement.querySelectorAll("div")], at = all.indexOf(column);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
  if (event.key === "Escape") column.blur();
  if (!all[to]) return;
  event.preventDefault();
  column.tabIndex = -1;
  all[to].tabIndex = 0;
  all[to].focus();
});
const live = document.querySelector("[data-live]");
if (live) {
  let source;
  const shown = new Map();
  const show = event => {
    for (const [id, markup] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById(id);
      if (!part || shown.get(id) === markup || part.contains(document.activeElement)) continue; // not under the reader's hands
      part.innerHTML = markup; // made and escaped by the service's own templates
      shown.set(id, markup);
    }
  };
  const follow = () => {
    if (source) source.close();
    source = undefined;
    if (document.hidden) return; // a browser has few connections to one server
    source = new EventSource(live.dataset.live);
    source.addEventListener("figures", show);
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
