"""A gang that adds a number over TCP at every step; at step `AT` of its first attempt rank `WHO` does `FAULT`."""

import os
import signal
import socket
import struct
import time

import muster.report

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FAULT, WHO, AT = os.environ.get("FAULT", ""), int(os.environ.get("WHO", "1")), int(os.environ.get("AT", "20"))
STEPS, SECONDS = int(os.environ.get("STEPS", "60")), float(os.environ.get("SECONDS", "0.05"))


def peers():
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK:
        while True:
            try:
                return [socket.create_connection(address)]
            except OSError:
                time.sleep(0.05)
    with socket.create_server(address) as server:
        return [server.accept()[0] for _ in range(SIZE - 1)]


def receive(peer):
    data = peer.recv(8, socket.MSG_WAITALL)
    if len(data) < 8:
        raise ConnectionError("a peer has gone")
    return struct.unpack("!d", data)[0]


def all_reduce(links, value):
    if RANK:
        links[0].sendall(struct.pack("!d", value))
        return receive(links[0])
    total = value + sum(receive(peer) for peer in links)
    for peer in links:
        peer.sendall(struct.pack("!d", total))
    return total


def spin():
    while True:
        pass


def misbehave(step):
    if RANK != WHO or step < AT or os.environ["MUSTER_ATTEMPT"] != "1":
        return
    if FAULT == "loop":
        spin()
    elif FAULT == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif FAULT == "slow":
        time.sleep(9 * SECONDS)


def main():
    links = peers()
    for step in range(1, STEPS + 1):
        began = time.monotonic()
        time.sleep(SECONDS)
        misbehave(step)
        own = time.monotonic() - began
        total = all_reduce(links, 1.0)
        muster.report.progress(step, loss=total / step, seconds=own)


main()
