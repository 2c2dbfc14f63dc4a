"""The node helper: standard-library Python (3.7 and newer) that runs on every host, sent anew at each use.

It speaks JSON lines on stdin and stdout (docs/node-protocol.md). It installs nothing, ends when its stdin ends, and
never takes an engine process with it: those belong to a keeper, a process of its own that runs this same package.

Three rules hold in all modules. Nothing is signalled that is not proven to be ours. State is on disk before the thing
that it describes exists. Every wait has a bound.

Where to read, from the bottom up:

* ``errors``, ``threads``, ``files``, ``processes``, ``programs``: what everything else is made of.
* ``folder``, ``survivors``, ``locks``: the run folder, what of ours lives, who may change it.
* ``prepare``, ``hugepages``, ``kernel_modules``, ``keeper_line``, ``start``: how processes come to run;
  ``keeper`` is the program at the other end of that line.
* ``stop``, ``clear``: how they end, and what is given back.
* ``records``, ``logs``, ``logscan``, ``watched``, ``watch``: what is told of them.
* ``gather``, ``ports``, ``http_client``, ``completions``: what is told of the host and asked of its servers.
* ``call``, ``server``, ``hello``, ``main``: requests, and the program around it all; ``boot`` makes it run on a host.

Modules import each other relatively and nothing else of sgdeploy: on a host the package stands alone. What is for type
checkers only is imported below ``if TYPE_CHECKING``, a constant here: ``typing`` would cost each host a sixth of the
start.
"""
