"""Log lines that mean something to us, by short names: milestones of health, and what the engine says as it ends."""

from __future__ import annotations

import re

from sgdeploy.engine.milestones import milestone_sets

ENDS = {
    "chat-template": r"Using default HuggingFace chat template",
    "timings": r"Engine startup timings",
    "process-started": r"Started server process",
    "startup": r"Waiting for application startup",
    "draining": r"SIGTERM received\. signum=None frame=None\. Draining requests and shutting down",
    "follower-waits": r"SIGTERM received on a non-zero rank; waiting for the rank-0 ShutdownReq broadcast",
    "remaining-none": r"Gracefully exiting\.\.\. Remaining number of requests 0\.",
    "tree-killed": r"kill_process_tree called: parent_pid=\d+, include_parent=False",
    "tree-and-self-killed": r"kill_process_tree called: parent_pid=\d+, include_parent=True",
    "shutting-down": r"Shutting down$",
    "shutdown": r"Waiting for application shutdown",
    "shutdown-done": r"Application shutdown complete",
    "finished": r"Finished server process",
    "scheduler-ended": r"Scheduler or DataParallelController \d+ terminated with",
    "exception": r"Scheduler hit an exception: Traceback",
    # Which of the two a rank says is chance: it depends on whether data was under way when its peer died.
    "connection-lost": r"Connection (reset|closed) by peer",
    "crashed": r"Subprocess \w+ \(pid=\d+\) crashed with exit code",
    "sigquit-in-load": r"Received sigquit from a child process",
    "sigquit": r"SIGQUIT received\. signum=None, frame=None",
    "sleeping": r"Sleeping 5 seconds before crash diagnostics",
    "no-scheduler": r"No live scheduler processes found",
    "died-in-load": r"scheduler died during initialization \(exit code: -9\)",
    "health-failed": r"Health check failed",
}


def lines_in(text: str) -> list[str]:
    """Name the known lines of a log in the order in which each came first."""
    names = {**ENDS}
    for each in milestone_sets().values():
        names.update({milestone.name: milestone.pattern for milestone in each.milestones})
    patterns = {name: re.compile(pattern) for name, pattern in names.items()}
    found: list[str] = []
    for line in text.splitlines():
        found += [name for name, pattern in patterns.items() if name not in found and pattern.search(line)]
    return found
