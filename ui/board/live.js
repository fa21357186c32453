// Keeps the changing parts of the board's first page up to date, by server-sent events. Without it
// the page shows how it was when it was loaded.
"use strict";
{
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
    source = new EventSource("/board/live");
    source.addEventListener("figures", show);
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
