"""Runs a script as two ranks that are forks of this process: as torchrun would, in half the time,
since PyTorch is imported once. If one fails, the other is ended."""

import os
import runpy
import signal
import socket
import sys
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch.distributed  # noqa: F401 (before the fork)


def become(rank: int, script: str) -> int:
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # whole lines, or the two's mix
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def main(script: str) -> int:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = set()
    for rank in range(2):
        process = os.fork()
        if process == 0:
            status = become(rank, script)
            sys.stdout.flush()
            os._exit(status)
        ranks.add(process)
    worst = 0
    while ranks:
        ended, status = os.wait()
        ranks.remove(ended)
        if status != 0 and worst == 0:
            worst = 1
            for process in ranks:
                os.kill(process, signal.SIGTERM)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
