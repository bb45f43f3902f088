"""The parts of the suite by name, in the order in which they run.

A part is a function of the ground it stands on and the outcome it adds to.
"""

from __future__ import annotations

from torture.disk import disk
from torture.federation import federation
from torture.federation_bits import federation_bits
from torture.ground import Part
from torture.kernel_forms import kernel_forms
from torture.kills import kills
from torture.mutations import mutations
from torture.pages import pages
from torture.races import races
from torture.sanitizers import sanitizers
from torture.tampering import tampering

PARTS: dict[str, Part] = {
    "kills": kills,
    "disk": disk,
    "races": races,
    "mutations": mutations,
    "tampering": tampering,
    "sanitizers": sanitizers,
    "kernel-forms": kernel_forms,
    "federation": federation,
    "federation-bits": federation_bits,
    "pages": pages,
}
