// Loads the contents of the page again when the server reports a change, and says when the server
// is away. Without the stream of changes it asks every two seconds. Hidden pages do nothing.
const ALONE_MS = 2000;
const STREAMED_MS = 10000;
const LEAST_MS = 700;
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
  const [now, next] = [live(), page.querySelector("[data-live]")];
  // What the user has selected or focused stays.
  const is_used = now.contains(document.activeElement) || String(getSelection()) !== "" ||
    now.querySelector("input:checked");
  if (next && !is_used) now.replaceWith(document.adoptNode(next));
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
