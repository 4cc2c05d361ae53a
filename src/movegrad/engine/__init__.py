"""The machinery that runs chains; front ends import what is named here and nothing else.

The one seam between host and GPU: a *place* holds arrays and runs chains on them. Who runs is decided once, by :func:`place_of` θ,
where a :class:`Batch` is made. ``HOST`` (host.py) and :class:`movegrad.cuda.Device` have the same methods:

* ``vectors``, ``solutions``: arguments of users, checked, as arrays of the place;
* ``own``, ``numpy``, ``joined``, ``stacked``, ``own_solutions``, ``chains_on_host``: what is asked of its arrays;
* ``observe``: T(y) of solutions; ``execute``: run the chains of a batch; ``side_by_side``: how many examples at once.

Inside, ``loop.py`` has the chain and ``outcomes.py`` all that one step can lead to; ``bind.py`` puts functions of a problem into
both, ``compile.py`` compiles with fingerprints of ``reach.py``, a ``disk_cache.py`` and errors of ``explain.py``; ``batch.py`` says
what is to be run, ``pace.py`` how far at a time, ``host.py`` runs it on ``threads.py``, and ``listing.py`` keeps lists of outcomes.
Moves draw by ``draws.py``, kernels read ``clock.py``; ``reference.py`` and ``bits.py`` are what Numba is told about kernels on the
CPU.
"""

from movegrad.engine.batch import Batch, Begin, Run, Settings, layout_of, on_gpu, place_of, ragged_batch, shared_batch
from movegrad.engine.bind import Options
from movegrad.engine.compile import is_jitted, jit, outline, pure
from movegrad.engine.disk_cache import keep_on_disk
from movegrad.engine.draws import GROUPS, ODOMETER_SIZE, categorical, coin, integer, leaf, stream_keys
from movegrad.engine.explain import RETURNS, defined_at, returns_nothing
from movegrad.engine.host import HOST, phi_of
from movegrad.engine.listing import Listing, must_be_losses
from movegrad.engine.loop import (
    ACCEPTED,
    BEST_OBJECTIVE,
    BUILD,
    DRAW,
    DRAWN,
    IMPROVE,
    INAPPLICABLE,
    INFEASIBLE,
    OBJECTIVE,
    TRUSTED,
)
from movegrad.engine.reach import Reach
from movegrad.engine.threads import get_threads, set_threads

__all__ = [
    "ACCEPTED",
    "BEST_OBJECTIVE",
    "BUILD",
    "DRAW",
    "DRAWN",
    "GROUPS",
    "HOST",
    "IMPROVE",
    "INAPPLICABLE",
    "INFEASIBLE",
    "OBJECTIVE",
    "ODOMETER_SIZE",
    "RETURNS",
    "TRUSTED",
    "Batch",
    "Begin",
    "Listing",
    "Options",
    "Reach",
    "Run",
    "Settings",
    "categorical",
    "coin",
    "defined_at",
    "get_threads",
    "integer",
    "is_jitted",
    "jit",
    "keep_on_disk",
    "layout_of",
    "leaf",
    "must_be_losses",
    "on_gpu",
    "outline",
    "phi_of",
    "place_of",
    "pure",
    "ragged_batch",
    "returns_nothing",
    "set_threads",
    "shared_batch",
    "stream_keys",
]
