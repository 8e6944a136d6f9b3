"""Visits the dashboard with Chromium, as the e2e test `browser` runs it.

    pages.py PROGRAM ADDRESS [SCREENSHOTS]

The environment names the server. On standard output, a line asks the test to do something with the
server, and a line on standard input reports that it is done: `kill` and `up`.
"""

import json
import subprocess
import sys
from pathlib import Path

from axe_playwright_python import sync_playwright as axe_module
from playwright.sync_api import expect, sync_playwright

PROGRAM, ADDRESS = sys.argv[1:3]
SCREENSHOTS = sys.argv[3] if len(sys.argv) > 3 else None
AXE = (Path(axe_module.__file__).parent / "axe.min.js").read_text()
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update"]
PAGES = ["/", "/queue", "/projects", "/nodes", "/usage", "/reservations", "/whatif", "/admin",
         "/docs", "/submit", "/wall"]
MODES = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
HOSTILE = "<img src=x onerror=alert(1)>"


def gpool(*words):
    return subprocess.run([PROGRAM, *words], text=True, check=True, capture_output=True).stdout


def submit(*words):
    return json.loads(gpool("--json", "submit", *words))["id"]


def cause(what):
    """Lets the test do something with the server."""
    print(what, flush=True)
    sys.stdin.readline()


class Visitor:
    """A browser window that collects everything a page must not do."""

    def __init__(self, browser, signed_in=True, **settings):
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.faults = []
        self.page.on("console", self.on_console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))
        self.page.on("request", self.on_request)
        self.base = ADDRESS
        if signed_in:
            link = gpool("open", "--print").strip()
            self.base = "/".join(link.split("/")[:3])
            self.page.goto(link)

    def on_console(self, message):
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def on_request(self, request):
        if not request.url.startswith(self.base + "/"):
            self.faults.append(f"another origin: {request.url}")

    def open(self, path):
        answer = self.page.goto(self.base + path)
        assert answer.status == 200, (path, answer.status)
        assert len(answer.body()) < 300_000, (path, len(answer.body()))
        return self.page

    def close(self, where):
        assert not self.faults, (where, self.faults)
        self.context.close()


def findings_of_axe(page, where):
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [it for it in found if it["impact"] in ("serious", "critical")]
    return [(where, it["id"], it["nodes"][0]["html"], it["nodes"][0].get("failureSummary"))
            for it in serious]


def each_page_in_each_mode(browser, jobs):
    for mode, settings in MODES.items():
        visitor, findings = Visitor(browser, **settings), []
        for path in PAGES + [f"/jobs/{job}" for job in jobs]:
            page = visitor.open(path)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= settings["viewport"]["width"], (mode, path, wide)
            findings += findings_of_axe(page, (mode, path))
            if SCREENSHOTS:
                name = path.strip("/").replace("/", "-") or "overview"
                page.screenshot(path=f"{SCREENSHOTS}/{name}-{mode}.png")
        assert not findings, findings
        visitor.close(mode)


def without_javascript(browser, running):
    visitor = Visitor(browser, java_script_enabled=False)
    page = visitor.open("/queue")
    page.get_by_role("link", name=running, exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Job {running}")
    page = visitor.open("/submit")
    page.get_by_label("Command").fill("echo by form")
    page.get_by_label("Time limit").fill("1m")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("pre")).to_contain_text("gpool submit --time 1m -- sh -c 'echo by form'")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Job ")
    visitor.close("without JavaScript")


def changes_arrive(browser):
    visitor = Visitor(browser)
    page = visitor.open("/queue")
    # By the stream, before the next regular request.
    with page.expect_request("**/events"):
        page.reload()
    submit("--hold", "--time", "1m", "--name", "arrives", "--", "true")
    expect(page.get_by_role("cell", name="arrives")).to_be_visible(timeout=8000)
    visitor.close("changes")


def headings_sort(browser):
    """Also on a phone, where jobs are cards."""
    for mode, settings in MODES.items():
        visitor = Visitor(browser, java_script_enabled=False, **settings)
        page = visitor.open("/queue")
        page.get_by_role("link", name="GPUs", exact=True).click()
        assert page.url.endswith("sort=-gpus"), page.url
        page = visitor.open("/nodes")
        page.get_by_role("link", name="Use", exact=True).first.click()
        assert page.url.endswith("/nodes?sort=-use"), page.url
        visitor.close(mode)


def hostile_texts(browser, job):
    visitor = Visitor(browser)
    page = visitor.open(f"/jobs/{job}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    expect(page.locator("pre").last).to_contain_text("<script>alert(2)</script>red")
    assert "\x1b" not in page.content()
    assert page.locator("main img, main script").count() == 0
    visitor.close("hostile texts")


def changes_are_simulated(browser):
    visitor = Visitor(browser, java_script_enabled=False)
    page = visitor.open("/whatif")
    page.get_by_label("Nodes", exact=True).fill("1")
    page.get_by_label("GPUs each").fill("4")
    page.get_by_label("Past jobs").select_option("1d")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("heading", name="Present queue, next 1 d")).to_be_visible()
    expect(page.get_by_role("heading", name="Jobs of the past 1 d")).to_be_visible()
    expect(page.get_by_role("row", name="GPUs 2 6 +4").first).to_be_visible()
    expect(page.locator("pre")).to_contain_text("gpool simulate --if 'add 1 node x 4 H100-80G'")
    page.get_by_label("More changes").fill("hold 999")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("alert")).to_contain_text("999")
    visitor.faults.clear()
    visitor.close("what if")


def actions_ask_first(browser):
    job = submit("--gpus", "1", "--time", "1h", "--hold", "--name", "acted-on", "--", "sleep", "100")
    visitor = Visitor(browser)
    page = visitor.open(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 1 job?")
    page.get_by_role("link", name="Go back").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("held")
    page = visitor.open("/queue")
    page.get_by_label(f"Select job {job}", exact=True).check()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel now").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    visitor.close("actions")


def chart(what, values):
    """A chart as on the page of a job, of minutes since noon."""
    return (f'<div><p class="line"><b>{what}</b> <span class="moment"></span></p>'
            f'<div class="plot"><svg class="scale" width="40" height="84"></svg>'
            f'<svg class="area" height="84" role="img" aria-label="{what}" '
            f'data-start="1790251200000" data-step="60000" '
            f'data-values="{values}"></svg></div></div>')


def charts_show_one_moment(browser):
    visitor = Visitor(browser)
    # A job that has not started has no charts of its own.
    job = submit("--hold", "--time", "1m", "--", "true")
    charts = chart("First", "10 %|20 %|30 %|40 %") + chart("Second", "1 W|2 W||4 W|5 W")
    page = visitor.open(f"/jobs/{job}")
    page.evaluate("""html => {
        document.querySelector("main").insertAdjacentHTML("beforeend", html);
        document.dispatchEvent(new Event("replaced"));
    }""", f'<div class="lines">{charts}</div>')
    first, second = [page.get_by_role("slider", name=name) for name in ("First", "Second")]
    moments = page.locator(".moment")

    def shown(*texts):
        expect(moments).to_have_text(texts)
        expect(page.locator("svg .cursor")).to_have_count(sum(text != "" for text in texts))

    box = second.bounding_box()
    second.hover(position={"x": box["width"] * 0.3, "y": 10})
    shown("2026-09-24 12:01Z: 20 %", "2026-09-24 12:01Z: 2 W")
    second.hover(position={"x": box["width"] * 0.5, "y": 10})
    shown("2026-09-24 12:02Z: 30 %", "2026-09-24 12:02Z: not measured")
    # The first chart ends before.
    second.hover(position={"x": box["width"] * 0.9, "y": 10})
    shown("", "2026-09-24 12:04Z: 5 W")
    page.mouse.move(2, 2)
    shown("", "")
    # By keyboard, with one stop for all charts.
    assert [it.get_attribute("tabindex") for it in (first, second)] == ["0", "-1"]
    first.focus()
    shown("2026-09-24 12:03Z: 40 %", "2026-09-24 12:03Z: 4 W")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    shown("2026-09-24 12:01Z: 20 %", "2026-09-24 12:01Z: 2 W")
    page.keyboard.press("ArrowDown")
    expect(second).to_be_focused()
    page.keyboard.press("Home")
    expect(second).to_have_attribute("aria-valuetext", "2026-09-24 12:00Z: 1 W")
    shown("2026-09-24 12:00Z: 10 %", "2026-09-24 12:00Z: 1 W")
    assert not findings_of_axe(page, "charts")
    page.keyboard.press("Escape")
    shown("", "")
    visitor.close("charts")


def forms_need_the_token(browser):
    visitor = Visitor(browser)
    page = visitor.open("/submit")
    page.get_by_label("Command").fill("echo forged")
    page.evaluate("document.querySelectorAll('[name=csrf]').forEach(it => { it.value = '0' })")
    with page.expect_response("**/submit") as answer:
        page.get_by_role("button", name="Submit").click()
    assert answer.value.status == 403, answer.value.status
    assert "forged" not in gpool("history")
    visitor.faults.clear()
    visitor.close("forged forms")


def keyboard_and_colors(browser):
    visitor = Visitor(browser, color_scheme="light")
    page = visitor.open("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the contents")).to_be_focused()
    page.get_by_role("button", name="Colors").click()
    page = visitor.open("/queue")
    assert page.evaluate("document.documentElement.dataset.colors") == "dark"
    visitor.close("keyboard")


def the_server_goes_and_comes_back(browser):
    wall, signed_in = Visitor(browser, signed_in=False), Visitor(browser)
    wall.open("/wall")
    page = signed_in.open("/")
    cause("kill")
    for it in (wall.page, page):
        expect(it.locator("#link")).to_have_text("The server does not answer. Trying again.")
    cause("up")
    expect(wall.page.locator("#link")).to_be_empty(timeout=15000)
    expect(wall.page.get_by_role("heading", level=1)).to_have_text("GPUs")
    # Sessions end with their server.
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in", timeout=15000)
    for visitor in (wall, signed_in):
        visitor.faults.clear()
        visitor.close("restart")


def main():
    running = submit("--gpus", "1", "--time", "1h", "--name", "train", "--", "sleep", "1000")
    submit("--gpus", "2", "--time", "30m", "--name", "large", "--", "sleep", "1000")
    array = submit("--gpus", "0.5", "--time", "20m", "--array", "0-3", "--name", "sweep", "--",
                   "sleep", "1000")
    hostile = submit("--time", "1m", "--name", HOSTILE, "--", "printf",
                     "<script>alert(2)</script>\\033[31mred\\033[0m")
    gpool("wait", hostile)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        expect.set_options(timeout=15000)
        each_page_in_each_mode(browser, [running, array, hostile])
        without_javascript(browser, running)
        changes_arrive(browser)
        headings_sort(browser)
        hostile_texts(browser, hostile)
        changes_are_simulated(browser)
        actions_ask_first(browser)
        charts_show_one_moment(browser)
        forms_need_the_token(browser)
        keyboard_and_colors(browser)
        the_server_goes_and_comes_back(browser)
        browser.close()


main()
