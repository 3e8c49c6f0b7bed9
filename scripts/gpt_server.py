"""`gpt serve` as a process of a script, which needs nothing beyond Python."""
import os
import re
import subprocess
import sys
import threading


class GptServer:
    """Has started and listens: url, port, process. What it writes to standard error is read and forgotten."""

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
        """As Ctrl-C does: answers what it has accepted. Returns its status."""
        self.process.terminate()
        return self.process.wait(60)

    def kill(self):
        self.process.kill()
        self.process.wait()
