"""Times the dashboard in Chromium: benches/dashboard.py LINK [PATH...]

LINK is printed by `gpool open --print`. Of each page it prints the median of nine loads: the time
until it is interactive, and its size. It needs Playwright (crates/gpool/tests/browser) and
/usr/bin/chromium.
"""

import statistics
import sys

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu"]
# Scripts are deferred, so the page answers clicks when the document is complete.
TIMING = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"


def main():
    link, paths = sys.argv[1], sys.argv[2:] or ["/queue", "/queue?state=all", "/"]
    base = "/".join(link.split("/")[:3])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page()
        page.goto(link)
        for path in paths:
            times = []
            for _ in range(9):
                size = len(page.goto(base + path).body())
                times.append(page.evaluate(TIMING))
            median = statistics.median(times)
            print(f"{path}: interactive after {median:.0f} ms, {size / 1000:.0f} kB")
        browser.close()


main()
