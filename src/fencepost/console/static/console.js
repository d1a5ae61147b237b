// Says so when what is shown is old: nothing has been heard of the server for half a minute.
(() => {
  "use strict";
  const PATIENCE = 30_000;
  let heard = Date.now();
  const notice = () => document.getElementById("stale");
  const look = () => {
    const shown = notice();
    if (shown) shown.hidden = Date.now() - heard < PATIENCE;
  };
  document.addEventListener("htmx:sse:after:message", () => {
    heard = Date.now();
    look();
  });
  setInterval(look, 5_000);
})();
