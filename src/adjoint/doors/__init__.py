"""Doors: functions under another library's names, by a table of signatures and expressions.

rows.py reads the tables and explains their dialect. A door has a table, and words: the functions
that its expressions call in addition to operators.
"""

from adjoint.doors.rows import DoorRow as DoorRow
from adjoint.doors.rows import ad as ad
from adjoint.doors.rows import compiled as compiled
from adjoint.doors.rows import door as door
from adjoint.doors.rows import in_operators as in_operators
from adjoint.doors.rows import read as read
from adjoint.doors.rows import with_signature as with_signature
