"""The front: what a person imports and types.

    from copycert import certify, load
    found = certify(load("runs/rope2d"), max_length=100_000)
    found.status, found.proved_to, found.fails_at, found.witness, found.margin

The names are those of `__init__.pyi`; each is loaded when it is first asked for: `import copycert` costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
