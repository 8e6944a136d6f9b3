"""The client for asyncio."""

import asyncio
import unittest

from support import PATIENCE

import gpool


class Asyncio(unittest.TestCase):
    def test_methods_are_coroutines(self):
        async def main():
            async with gpool.aio.Client() as client:
                jobs = await asyncio.gather(*[client.submit(["echo", "one"]) for _ in range(3)])
                ended = await client.wait([job["id"] for job in jobs], timeout=PATIENCE)
                self.assertEqual({job["state"] for job in ended}, {"succeeded"})
                lines = [line async for line in client.follow(jobs[0]["id"])]
                self.assertEqual(lines, ["one"])
                self.assertEqual((await client.version())["name"], "gpool")
                found = [job["id"] async for job in client.jobs(state="all")]
                self.assertIn(jobs[0]["id"], found)
                array = await client.submit(["true"], array="0-1", hold=True)
                elements = [job["id"] async for job in client.elements(array["id"])]
                self.assertEqual(len(elements), 2)
                await client.cancel(array["id"])
                with self.assertRaises(gpool.NotFound):
                    await client.job(999999)
                with self.assertRaises(AttributeError):
                    client.nothing()

        asyncio.run(main())

    def test_a_cancelled_iterator_ends_its_stream(self):
        async def first(events):
            async for event in events:
                return event

        async def main():
            client = gpool.aio.Client()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(first(client.events()), 0.2)
            task = asyncio.ensure_future(first(client.events()))
            while not task.done():
                await client.cancel((await client.submit(["true"], hold=True))["id"])
                await asyncio.sleep(0)
            self.assertIn("type", task.result())

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
