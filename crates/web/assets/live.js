// Loads the contents of the page again when the server reports a change, and says when the server
// is away. Without the stream of changes it asks every two seconds. Hidden pages do nothing.
const ALONE_MS = 2000;
const STREAMED_MS = 10000;
const LEAST_MS = 1000;
const link = document.getElementById("link");
const live = () => document.querySelector("[data-live]");
const followed = live()?.dataset.live;

let stream = null;
let is_streaming = false;
let wake = () => {};

async function refresh() {
  const response = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (response.status === 401 || response.status === 403) {
    location.reload();
    return;
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = page.querySelector("[data-live]");
  if (next) replace(live(), document.adoptNode(next));
}

// Controls that the user has focused or checked and selected text stay until they are left;
// scrolled parts keep their position and the focus.
function replace(now, next) {
  const focused = now.contains(document.activeElement) ? document.activeElement : null;
  const is_used = focused?.matches("a, button, input, [role=slider]") || now.querySelector("input:checked") ||
    String(getSelection()) !== "";
  if (is_used) return;
  const scrolled = (root) => [...root.querySelectorAll(".scroll, pre")];
  const [before, after] = [scrolled(now), scrolled(next)];
  const places = before.map((it) => [it.scrollLeft, it.scrollTop]);
  now.replaceWith(next);
  document.dispatchEvent(new Event("replaced"));
  if (before.length !== after.length) return;
  after.forEach((it, ix) => { [it.scrollLeft, it.scrollTop] = places[ix]; });
  after[before.indexOf(focused)]?.focus({ preventScroll: true });
}

function listen() {
  if (followed === "poll" || stream || document.hidden) return;
  const job = followed ? `?job=${encodeURIComponent(followed)}` : "";
  stream = new EventSource(`/events${job}`);
  stream.onopen = () => { is_streaming = true; };
  stream.onmessage = () => wake();
  // The browser connects again by itself, unless the server refused.
  stream.onerror = () => {
    is_streaming = false;
    if (stream.readyState === EventSource.CLOSED) close();
    wake();
  };
}

function close() {
  stream?.close();
  stream = null;
  is_streaming = false;
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function follow() {
  for (;;) {
    const woken = new Promise((done) => { wake = done; });
    await Promise.all([sleep(LEAST_MS),
      Promise.race([woken, sleep(is_streaming ? STREAMED_MS : ALONE_MS)])]);
    if (document.hidden) continue;
    try {
      await refresh();
      link.textContent = "";
      listen();
    } catch {
      link.textContent = "The server does not answer. Trying again.";
      close();
    }
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
  } else {
    listen();
    wake();
  }
});

const colors = document.getElementById("colors");
if (colors) {
  colors.hidden = false;
  colors.addEventListener("click", () => {
    const root = document.documentElement;
    const is_dark = root.dataset.colors ? root.dataset.colors === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.colors = is_dark ? "light" : "dark";
    document.cookie = `colors=${root.dataset.colors}; Path=/; SameSite=Strict; Max-Age=31536000`;
  });
}

if (live()) {
  listen();
  follow();
}
