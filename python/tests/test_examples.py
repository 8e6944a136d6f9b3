"""Examples of the module and of docs/using/python.md, as a user types them."""

import doctest
import os
import re
import unittest

from support import SOURCES

import gpool

PAGE = os.path.join(SOURCES, "..", "..", "docs", "using", "python.md")
BLOCK = re.compile(r"^```(pycon|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Examples(unittest.TestCase):
    def run_examples(self, text, name):
        test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
        said = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        self.assertEqual(result.failed, 0, "".join(said))
        return result.attempted

    def test_the_example_of_the_module_is_true(self):
        self.assertEqual(self.run_examples(gpool.__doc__, "gpool"), 5)

    def test_the_examples_of_the_page_are_true(self):
        if not os.path.exists(PAGE):
            self.skipTest("the page is in the repository only")
        with open(PAGE, encoding="utf-8") as file:
            blocks = BLOCK.findall(file.read())
        session = []
        for language, block in blocks:
            if language == "pycon":
                session.append(block)
            else:
                name = re.match(r"# (\w+\.py)\n", block).group(1)
                with open(name, "w", encoding="utf-8") as program:
                    program.write(block)
        self.assertGreater(self.run_examples("\n".join(session), "python.md"), 15)


if __name__ == "__main__":
    unittest.main()
