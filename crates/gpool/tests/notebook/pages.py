"""Works in JupyterLab with Chromium.

    pages.py URL OTHER

OTHER is the link to the dashboard. Its session must not reach the notebook, and the other way.
"""

import sys

from playwright.sync_api import TimeoutError, expect, sync_playwright

URL, OTHER = sys.argv[1:3]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


def origin(url):
    return "/".join(url.split("/")[:3])


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    expect.set_options(timeout=60_000)
    dashboard = context.new_page()
    dashboard.goto(OTHER)
    expect(dashboard.locator("h1").first).to_be_visible()
    page = context.new_page()
    page.goto(URL)
    assert origin(page.url) == origin(URL), page.url
    card = page.locator(".jp-LauncherCard[data-category=Notebook]").first
    card.click(timeout=60_000)
    # Before that, a cell is not run.
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=60_000)
    cell = page.locator(".jp-Cell .cm-content").first
    cell.click(timeout=60_000)
    page.keyboard.type("print(6 * 7)")
    # A busy JupyterLab may still drop the keys: they are pressed until there is an output.
    output = page.locator(".jp-OutputArea-output").first
    for _ in range(10):
        page.keyboard.press("Control+Enter")
        try:
            output.wait_for(timeout=10_000)
            break
        except TimeoutError:
            cell.click(timeout=60_000)
    expect(output).to_contain_text("42")
    # The cookies: each host has its own, and pages can't read those of gpool.
    hosts = {cookie["domain"] for cookie in context.cookies() if "gpool" in cookie["name"]}
    assert len(hosts) == 2, hosts
    assert "gpool" not in page.evaluate("document.cookie")
    # A page of the notebook gets nothing from the dashboard.
    ask = "url => fetch(url, {credentials: 'include'}).then(it => it.text(), () => 'blocked')"
    assert page.evaluate(ask, origin(OTHER) + "/queue") == "blocked"
    assert dashboard.evaluate(ask, origin(URL) + "/api/kernels") == "blocked"
    # A used link opens nothing in another browser.
    stranger = browser.new_context().new_page()
    assert stranger.goto(URL).status == 403
    assert stranger.goto(origin(URL) + "/lab").status == 401
    browser.close()
print("done")
