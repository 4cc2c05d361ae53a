"""The machinery behind :func:`movegrad.check`. Nothing here is compiled, and no front end needs it.

* ``numbers``: arrays and integers that behave in plain Python as they do in a kernel;
* ``pure``: a problem in plain Python, under every outcome of every draw;
* ``report``: what was found;
* ``follow``: one step, followed as the kernel makes it, from any state;
* ``laws``: the table of all draws from all solutions, and what histories leave in a state;
* ``balance``: ratios, reach, detailed balance and the stationary law;
* ``starts``: the set, and what ``random``, ``greedy`` and ``improve`` make;
* ``compiled``: the compiled chain against these laws, with a stated rate of false alarms;
* ``local``: the same questions along a walk, where a set is too large to list.
"""
