"""A client that means ill: `silence.py HOW N PORT` keeps N connections to a service and never finishes
what it begins. One that is cut off is opened anew. HOW: what it does on each of them.

silent  sends nothing
half    sends a half of a head
body    sends a head, and not the body that it announces
kept    asks for something short, and keeps the connection
deaf    asks for much, and reads nothing
"""
# SPDX-License-Identifier: Apache-2.0
import select
import socket
import sys

SENDS = {"silent": b"",
         "half": b"GET /healthz HTTP/1.1\r\nHost: local",
         "body": b"POST /v1/locks/y HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 20\r\n\r\n{",
         "kept": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
         "deaf": b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000}


def has_ended(connection):
    try:
        return connection.recv(65536) == b""
    except OSError:
        return True


class Silence:
    def __init__(self, how, port):
        self.sends, self.port, self.is_deaf = SENDS[how], port, how == "deaf"
        self.watched = select.epoll()
        self.open_ones = {}

    def open(self):
        connection = socket.socket()
        if self.is_deaf:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(self.sends)
        self.watched.register(connection, select.EPOLLRDHUP | (0 if self.is_deaf else select.EPOLLIN))
        self.open_ones[connection.fileno()] = connection

    def replace_ended(self):
        for fd, events in self.watched.poll():
            connection = self.open_ones[fd]
            if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR) or has_ended(connection):
                del self.open_ones[fd]
                connection.close()
                self.open()


def main(how, n, port):
    silence = Silence(how, port)
    for _ in range(n):
        silence.open()
    print("all are open", flush=True)
    while True:
        silence.replace_ended()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
