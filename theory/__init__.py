"""Statements and numbers: the copy task, exact frequencies, scores, and every bound on the length. No torch here.

The names are those of `__init__.pyi`; each is loaded from its wing when it is first asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
