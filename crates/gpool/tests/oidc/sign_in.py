"""A user in Chromium: signs in to the dashboard, or confirms the code of a command line.

Usage: sign_in.py page|refused|code URL NAME
Prints the last address, the cookies and the text of the last page.
"""

import json
import re
import sys

from playwright.sync_api import sync_playwright


def at_provider(page, name):
    page.fill("input[name=login]", name)
    page.fill("input[name=password]", "any")
    page.click("button[type=submit]")
    page.get_by_role("button", name="Continue").click()


what, url, name = sys.argv[1:]
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path="/usr/bin/chromium", args=["--no-sandbox"]
    )
    # The certificate is the server's own, and `gpool login` checks it in this test.
    page = browser.new_context(ignore_https_errors=True).new_page()
    page.goto(url)
    if what == "page":
        page.get_by_role("link", name="Sign in with").click()
        at_provider(page, name)
        page.wait_for_url(re.compile("^https?://[^/]+/$"))
    elif what == "refused":
        page.get_by_role("link", name="Sign in with").click()
        page.get_by_role("alert").wait_for()
    else:
        page.get_by_role("button", name="Continue").click()
        at_provider(page, name)
        page.get_by_text("Sign-in Success").wait_for()
    print(page.url)
    print(json.dumps(page.context.cookies()))
    print(page.inner_text("body"))
    browser.close()
