"""How a call ended."""

import re
from typing import Any

import numpy as np

from tests.fuzz.values import Boom

ACCEPTED, REFUSED, OTHERWISE, NONSENSE, CRASH, HANG = "accepted", "refused", "otherwise", "nonsense", "crash", "hang"
LONGEST = 300  # characters of a sentence


def refusal(error: BaseException, names: str, kind: str) -> tuple[str, str]:
    """REFUSED if the error is one sentence that names the argument, else OTHERWISE; and what is wrong with it."""
    if isinstance(error, Boom) and kind == "function":
        return REFUSED, ""  # what a function of the user raises is for the user to see
    if type(error).__name__ == "JaxRuntimeError" and "\nValueError: " in str(error):
        error = ValueError(str(error).split("\nValueError: ")[-1].strip())  # what was raised under jit: JAX wraps it in its own
    if not isinstance(error, (ValueError, TypeError)) or isinstance(error, UnicodeError):
        return OTHERWISE, type(error).__name__
    message = str(error)
    said = message.split(", got ")[0]  # what came may be text with sentences of its own
    if not message.endswith("."):
        return OTHERWISE, "no sentence"
    if "\n" in message or re.search(r"\. [A-Z]", said):
        return OTHERWISE, "more than one sentence"
    if len(message) > LONGEST:
        return OTHERWISE, f"{len(message)} characters"
    if not re.search(rf"(?<!\w)(?:{names})s?(?!\w)", message):
        return OTHERWISE, f"does not name {names}"
    return REFUSED, ""


def acceptance(result: Any, never: bool, kind: str, finite: bool) -> tuple[str, str]:
    """NONSENSE if the value cannot be right, or the result is not finite."""
    if never and kind in ("array", "number"):
        return NONSENSE, "such a value is never right"
    if finite and not is_finite(result):
        return NONSENSE, "the result is not finite"
    return ACCEPTED, ""


def is_finite(result: Any) -> bool:
    """Are all numbers in it finite? What is no number is not looked at."""
    if isinstance(result, (float, complex, np.floating)):
        return bool(np.isfinite(result))
    if isinstance(result, np.ndarray):
        return result.dtype.kind not in "fc" or bool(np.isfinite(result).all())
    if isinstance(result, (tuple, list)):
        return all(is_finite(part) for part in result)
    if type(result).__module__.split(".")[0] in ("torch", "jax", "jaxlib") and hasattr(result, "shape"):
        return is_finite(result.detach().double().resolve_neg().numpy() if hasattr(result, "detach") else np.asarray(result, float))
    return True
