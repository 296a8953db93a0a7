"""What the kernel's functions for FastEx take and give: `src/fastex_api.hpp` line by line.

The sources stay in the kernel of KBForge: a library of the laboratory's own would have to be built,
shipped and checked a second time.
"""

from __future__ import annotations

from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint64, c_void_p

from kbforge.kernel.binding import Prototype


class Told(Structure):
    """kb_fastex_told: what a sampler has done, and the processor's seconds by phase."""

    _fields_ = (
        ("proposed", c_int64),
        ("moved", c_int64),
        ("fragments_hashed", c_double),
        ("statistics", c_double),
        ("clusters_hashed", c_double),
        ("proposals", c_double),
        ("steps", c_double),
    )


PROTOTYPES: dict[str, Prototype] = {
    "kb_documents_new": (
        c_void_p,
        (*2 * (c_int64,), *6 * (c_void_p,), c_int64, *3 * (c_void_p,), c_int32, c_double),
    ),
    "kb_normals_new": (c_void_p, (c_int64, *3 * (c_void_p,), c_int64, *5 * (c_void_p,))),
    "kb_family_free": (None, (c_void_p,)),
    "kb_fastex_new": (c_void_p, (c_void_p, c_double, c_int64, c_double, c_int32, c_int32)),
    "kb_fastex_free": (None, (c_void_p,)),
    "kb_fastex_redirect": (None, (c_void_p, c_int64, c_int64, c_void_p, c_int64, c_int64)),
    "kb_fastex_begin": (None, (c_void_p, c_void_p)),
    "kb_fastex_place": (c_double, (c_void_p, c_int64, c_void_p, c_uint64)),
    "kb_fastex_exclude": (None, (c_void_p, c_int64, c_void_p)),
    "kb_fastex_block": (c_double, (c_void_p, c_int64, c_void_p, c_uint64)),
    "kb_fastex_fit": (None, (c_void_p, c_int64, c_void_p, c_void_p)),
    "kb_fastex_temperature": (None, (c_void_p, c_double)),
    "kb_fastex_slots": (None, (c_void_p, c_void_p)),
    "kb_fastex_tell": (None, (c_void_p, POINTER(Told))),
}
