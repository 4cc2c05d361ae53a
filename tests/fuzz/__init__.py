"""Hostile calls of every public function: right arguments with one that is wrong. ``python -m tests.fuzz --help``.

A call ends well if it is accepted, or refused by one sentence that names the argument. Everything else is counted: other errors,
nonsense that is accepted, crashes and calls that do not return.

* :mod:`tests.fuzz.values` has the hostile values,
* :mod:`tests.fuzz.targets` the functions with right arguments,
* :mod:`tests.fuzz.judge` says how a call ended,
* :mod:`tests.fuzz.run` makes the calls in processes that may die.
"""
