"""Runs `gpt serve` as a child process. Needs no Python packages."""
import os
import re
import subprocess
import sys
import threading


class GptServer:
    """A started server with url, port and process. The standard error of the server is read and discarded."""

    def __init__(self, gpt, *arguments, port=0, **of_process):
        words = [gpt, "serve", *arguments, "--port", str(port)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **of_process)
        notes = ""
        for line in self.process.stderr:
            notes += line
            if found := re.search(r"listening on (http://[^:]+:(\d+))", line):
                self.url, self.port = found[1], int(found[2])
                break
        else:
            sys.exit(f"{os.path.basename(sys.argv[0])}: the server did not start: {notes}")
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def stop(self):
        """Stops the server like Ctrl-C, which completes accepted requests. Returns its status."""
        self.process.terminate()
        return self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()
