"""Trains with PyTorch, and frees the GPU whenever gpool asks for it.

    gpool submit --gpus 1 --preemptible --yields=file@2m -- python yield_torch.py

A process that used CUDA keeps a part of the GPU until it ends. So a worker process trains: it saves
its state and ends when gpool asks for the GPU, and this process starts another one afterwards.
"""

import multiprocessing
import os
import sys
import time

FOLDER = os.environ["GPOOL_DIR"]
STATE = os.path.join(FOLDER, "state.pt")
STEPS = int(os.environ.get("STEPS", "100000"))
YIELDED = 75  # The exit code of a worker that saved its state to go on later.


def request():
    """Returns the request of gpool, `release` or `use`, and its number."""
    try:
        with open(os.path.join(FOLDER, "gpus")) as file:
            word, number = file.read().split()
            return word, number
    except FileNotFoundError:
        return "use", "0"


def answer(number):
    """Tells gpool that no process of the job uses the GPU. The file must appear as a whole."""
    new = os.path.join(FOLDER, ".released.new")
    with open(new, "w") as file:
        file.write(number)
    os.replace(new, os.path.join(FOLDER, "released"))


def train(stop):
    """Trains on the GPU from the saved state on."""
    import torch  # Only here: the other process must not open the GPU.

    model = torch.nn.Linear(16, 1).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first = 0
    if os.path.exists(STATE):
        saved = torch.load(STATE)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    for step in range(first, STEPS):
        if stop.is_set():
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({"step": step, **state}, STATE)
            sys.exit(YIELDED)
        loss = model(torch.randn(32, 16, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    spawn = multiprocessing.get_context("spawn")
    while True:
        stop = spawn.Event()
        worker = spawn.Process(target=train, args=(stop,))
        worker.start()
        while worker.is_alive():
            worker.join(0.2)
            if request()[0] == "release":
                stop.set()
        if worker.exitcode != YIELDED:
            sys.exit(worker.exitcode)
        answer(request()[1])
        while request()[0] == "release":
            time.sleep(0.2)


if __name__ == "__main__":
    main()
