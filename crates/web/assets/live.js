// Loads the contents of the page again while it is visible, and says when the server is away.
const PAUSE_MS = 2000;
const link = document.getElementById("link");

async function refresh() {
  const response = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (response.status === 401 || response.status === 403) {
    location.reload();
    return;
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const [now, next] = [document, page].map((it) => it.querySelector("[data-live]"));
  // What the user has selected or focused stays.
  const is_used = now.contains(document.activeElement) || String(getSelection()) !== "";
  if (next && !is_used) now.replaceWith(document.adoptNode(next));
}

async function follow() {
  for (;;) {
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    if (document.hidden) continue;
    try {
      await refresh();
      link.textContent = "";
    } catch {
      link.textContent = "The server does not answer; trying again.";
    }
  }
}

if (document.querySelector("[data-live]")) follow();
