"""Problems with one planted mistake each, which ``mg.check`` must find, and unusual ones without any, which it must let pass.

Moves are written as users write them, from the contract alone; nothing here knows how the checker works. ``WRONG`` and ``RIGHT``
map names to cases. ``python -m tests.mutants`` shows that the mistakes are real: how far the compiled chains are off.
"""

from tests.mutants import caches as caches
from tests.mutants import differences as differences
from tests.mutants import draws as draws
from tests.mutants import guided as guided
from tests.mutants import mixtures as mixtures
from tests.mutants import numbers as numbers
from tests.mutants import ratios as ratios
from tests.mutants import right as right
from tests.mutants import routing as routing
from tests.mutants import sets as sets
from tests.mutants.registry import RIGHT as RIGHT
from tests.mutants.registry import WRONG as WRONG
from tests.mutants.registry import Case as Case
