"""The simulated engine: behaves like a rank of SGLang 0.5.23 (or of its Kunpeng fork) and computes nothing.

Standard-library Python (3.7 and newer). On hosts it is one file, run as ``python3 -I -S engine.py <engine flags>``:
``sgdeploy.parcels.joined`` makes it of these modules. docs/rehearsal.md lists what it imitates, where each behaviour
was observed, and every knob.

Who is who: *main* (``engine``) reads the flags (``settings``), owns the HTTP ports (``front``, ``http_server``,
``completions``) and the children (``processes``); one *scheduler* per local rank meets the other ranks over TCP (a star
around rank 0 stands for torch.distributed) and "loads"; the leader also has a *detokenizer*. All three are forks of one
interpreter, blocked in poll() or recv() (``loop``, ``sockets``) while nothing happens. ``faults`` says who fails how
and when. Every log line has the wording of the real one, because milestones and diagnosis read them. tests/engine/ asks
both engines the same questions and compares what they show.

What is imported costs every rank milliseconds and megabytes: no typing, no pathlib, json only where it is used.
"""
