#!/usr/bin/env python3
"""A gateway in another language: chatcron schedules, delivers and keeps its histories.

Standard library only. The script is three things for chatcron:

* an agent of kind `http`: chatcron posts each turn, and the answer is the reply;
* a channel: chatcron posts what a chat shall show, and gets the message's id back;
* whoever brings in what people write, and sends messages of its own, by the HTTP API.

What its chats have shown it writes to a log of its own. In the end `chatcron verify` holds that log
against the transcripts; its exit code is that of this script.

usage: gateway.py CHATCRON
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JOBS = """
timezone = "UTC"

[jobs.greeting]
every  = "1s"
chat   = "ada"
prompt = "Greet Ada."
max_runs = 3

[jobs.digest]
every   = "1s"
deliver = "ops"
prompt  = "What is new?"
max_runs = 3

[chats.ada]
channel = "bridge"
agent   = "helper"

[chats.ops]
channel = "bridge"
kind    = "group"
agent   = "helper"

[channels.bridge]
kind          = "webhook"
url           = "{root}/show"
allow_private = true

[agents.helper]
kind = "http"
url  = "{root}/reply"
"""


class Chats:
    """What the chats have shown: once for each key, in the order in which it came."""

    def __init__(self, log):
        self.log = log
        self.lock = threading.Lock()
        self.ids = {}
        self.texts = []

    def show(self, key, chat, text):
        """Shows a message unless its key was there, and returns its id."""
        with self.lock:
            if key in self.ids:
                return self.ids[key]
            self.ids[key] = f"msg-{len(self.ids) + 1}"
            line = {"chat": chat, "message_id": self.ids[key], "key": key, "text": text}
            line["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()
            os.fsync(self.log.fileno())
            self.texts.append((chat, text))
            return self.ids[key]


def handler(chats):
    """What chatcron posts to: the agent, and the channel."""

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/reply":
                self.answer({"text": reply(body)})
            elif self.path == "/show":
                data = body["data"]
                shown = chats.show(self.headers["webhook-id"], data["chat"], data["text"])
                self.answer({"message_id": shown})
            else:
                self.send_error(404)

        def answer(self, value):
            text = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    return Gateway


def reply(turn):
    """The agent: it says what it was asked, and how much it remembers."""
    said = [message["content"] for message in turn["messages"] if message["role"] == "user"]
    return f"You said: {said[-1]} ({len(turn['messages'])} messages)"


class Api:
    """chatcron's HTTP API."""

    def __init__(self, address):
        self.root = f"http://{address}"

    def ask(self, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self.root + path, data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def address_of(worker):
    """Waits until chatcron says where its API is; the rest of its log is passed on."""
    for line in worker.stderr:
        sys.stderr.write(line)
        if "the HTTP API is there" in line:
            threading.Thread(target=pass_on, args=[worker.stderr], daemon=True).start()
            return line.split("address=")[1].split()[0]
    sys.exit("chatcron ended before its API was there")


def pass_on(lines):
    for line in lines:
        sys.stderr.write(line)


def use(api, chats):
    """What the gateway does while jobs deliver beside it."""
    for number in range(3):
        message = {"text": f"hello {number}", "sender_display": "Ada", "message_id": f"in-{number}"}
        turn = api.ask("/v1/chats/ada/messages", message)
        assert turn["state"] == "done", turn
        assert turn["reply"].startswith(f"You said: hello {number}"), turn
        own = {
            "chat": "ops",
            "text": f"Ada has written {number + 1} times.",
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        first = api.ask("/v1/outbound", own, Idempotency_Key=f"count-{number}")
        again = api.ask("/v1/outbound", own, Idempotency_Key=f"count-{number}")
        assert again["message_id"] == first["message_id"], (first, again)
    # Three replies and three greetings for Ada, three digests and three messages of our own.
    deadline = time.monotonic() + 60
    while len(chats.texts) < 12 or api.ask("/v1/outbox")["parts"]:
        assert time.monotonic() < deadline, chats.texts
        time.sleep(0.2)


def main(chatcron):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "bridge.jsonl")
        with open(log, "w", encoding="utf-8") as lines:
            chats = Chats(lines)
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler(chats))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            root = f"http://127.0.0.1:{server.server_port}"
            with open(os.path.join(folder, "jobs.toml"), "w", encoding="utf-8") as file:
                file.write(JOBS.replace("{root}", root))
            worker = subprocess.Popen(
                [chatcron, "run", "--listen", "127.0.0.1:0"],
                cwd=folder, stderr=subprocess.PIPE, text=True,
            )
            try:
                use(Api(address_of(worker)), chats)
            finally:
                worker.terminate()
                worker.wait(timeout=60)
            assert worker.returncode == 0, worker.returncode
        verify = [chatcron, "verify", "--channel-log", f"bridge={log}"]
        return subprocess.run(verify, cwd=folder, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1])))
