"""NVIDIA's Xid codes and what each asks for.

Source: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), its immediate actions reduced to four answers.
Where it names only "contact support", the device leaves the job if the code says that the device itself stopped.
Codes 144 to 150 (NVLink 5) carry a sub-code; by number alone they are taken at their worst, except 147 and 148.
"""

import re
from typing import Final, Literal

Response = Literal["record", "restart", "drain", "replace"]

RESTART: Final = frozenset(
    {8, 11, 13, 25, 31, 32, 60, 69, 80, 94, 137, 170}
    | {39, 40, 41, 68, 70, 71, 72, 75, 76, 77, 82, 83, 84, 85, 86, 88, 89, *range(96, 106), *range(126, 136), 139, 142}
)
"""The program's own doing, or contained to it: its ranks start again where they were."""
REPLACE: Final = frozenset(
    {44, 46, 48, 54, 62, 64, 74, 78, 79, 95, 109, 110, 119, 120, 136, 140, 143, 144, 145, 146, 149, 150, 151, 155, 158}
    | {166, 167, 169, 171, 172, 173}
)
"""The device or its node has to leave the job now."""
DRAIN: Final = frozenset({63, 92, 156, 157, 161, 168})
"""The device works on, and its node takes nothing new until it was reset or changed."""


def response(code: int) -> Response:
    """`record` for what is informational, secondary or not known."""
    if code in RESTART:
        return "restart"
    return "replace" if code in REPLACE else "drain" if code in DRAIN else "record"


def alternatives(codes: frozenset[int]) -> str:
    """The codes as a regular expression's alternatives."""
    return "|".join(str(code) for code in sorted(codes))


XID_CODE: Final = re.compile(r"\bXid\b(?:\s*\(PCI[^)\n]*\))?[ :=#]*(\d{1,3})\b", re.IGNORECASE)
"""Where a line names a code."""
