"""Executes splits that were planned elsewhere: on this machine, or sent to a node with nothing but its python3.

Standard library and Python 3.7 only; modules name each other relatively and nothing else of sgdeploy, because on a node
this package travels alone (``sgdeploy.weights.disk.parcel`` packs it).
"""
