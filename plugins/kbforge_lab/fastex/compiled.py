"""FastEx compiled, with the moves of `reference` (`src/fastex_api.hpp`): a library of its own."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import KBForgeError
from kbforge.kernel.binding import FOLDER, Prototype, address, declare
from kbforge.kernel.build import AGAIN, LIBRARY
from kbforge_lab.fastex.families import DocumentFamily, ExponentialFamily, Mixture
from kbforge_lab.fastex.proposals import TEMPERATURES, Directions


class SamplerTotals(Structure):
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
    "kb_fastex_tell": (None, (c_void_p, POINTER(SamplerTotals))),
}


@cache
def sampler_library() -> CDLL:
    """The library, which is built with the kernel.

    Raises:
        KBForgeError: there is none that can be used.
    """
    elsewhere = os.environ.get(FOLDER)
    folder = Path(elsewhere, "fastex") if elsewhere else Path(__file__).parent
    try:
        library = CDLL(str(folder / LIBRARY))
        declare(library, PROTOTYPES)
    except (OSError, AttributeError) as error:
        raise KBForgeError(f"the library of fastex cannot be loaded ({error}); {AGAIN}") from error
    return library


class CompiledSampler:
    """As `reference.Sampler`, which says what the methods do."""

    def __init__(
        self,
        library: CDLL,
        family: ExponentialFamily,
        prior: Mixture,
        delta: float | None,
        tries: int,
        workers: int,
    ) -> None:
        self._library, self._n = library, family.n
        self._kept: list[NDArray[Any]] = []
        self._temperature = 1.0
        told = [self._told(part) for part in (family.norms, family.lengths, family.alone)]
        if isinstance(family, DocumentFamily):
            data = family.data
            handle = library.kb_documents_new(
                self._n,
                family.lengths.shape[1],
                *told,
                *(self._told(part) for part in (data.starts, data.rows, data.counts)),
                len(data.signs),
                *(self._told(part) for part in (data.pseudo_counts, data.signs, family.half)),
                family.taylor == "tangent",
                family.unit,
            )
        else:
            prior_of = (family.a, family.b, family.lam, family.centre)
            dimensions = family.points.shape[1]
            points = self._told(family.points)
            handle = library.kb_normals_new(
                self._n, *told, dimensions, points, *map(self._told, prior_of)
            )
        self._handle: int = library.kb_fastex_new(
            handle, prior.alpha, prior.components or 0, delta or 0.0, tries, workers
        )
        # the sampler reads its family
        weakref.finalize(self, _free, library, self._handle, handle)

    def _told(self, array: NDArray[Any]) -> int:
        self._kept.append(np.ascontiguousarray(array))
        return address(self._kept[-1])

    def redirect(self, directions: Directions) -> None:
        self._directions = directions  # the library reads its table
        self._library.kb_fastex_redirect(
            self._handle,
            directions.bits,
            len(directions.table),
            address(directions.table),
            directions.multiplier,
            directions.offset,
        )

    def begin(self, labels: IntArray) -> None:
        """Have a grouping, its clusters numbered 0, 1, ..., shape [n]; there was none."""
        self._library.kb_fastex_begin(self._handle, address(np.ascontiguousarray(labels)))

    def place(self, fragments: Sequence[int], stream: int) -> float:
        numbers = np.array(fragments, dtype=np.int64)
        gain: float = self._library.kb_fastex_place(
            self._handle, len(numbers), address(numbers), stream
        )
        return gain

    def exclude(self, fragments: IntArray) -> None:
        numbers = np.ascontiguousarray(fragments, dtype=np.int64)
        self._library.kb_fastex_exclude(self._handle, len(numbers), address(numbers))

    def block(self, fragments: IntArray, stream: int) -> float:
        numbers = np.ascontiguousarray(fragments, dtype=np.int64)
        gain: float = self._library.kb_fastex_block(
            self._handle, len(numbers), address(numbers), stream
        )
        return gain

    def fit(self, fragments: IntArray) -> FloatArray:
        numbers = np.ascontiguousarray(fragments, dtype=np.int64)
        out = np.zeros(len(TEMPERATURES))
        self._library.kb_fastex_fit(self._handle, len(numbers), address(numbers), address(out))
        return out

    @property
    def temperature(self) -> float:
        return self._temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self._temperature = temperature
        self._library.kb_fastex_temperature(self._handle, temperature)

    @property
    def slot_of(self) -> IntArray:
        """The cluster of each fragment, -1 of one that is in none, shape [n]."""
        out = np.empty(self._n, dtype=np.int64)
        self._library.kb_fastex_slots(self._handle, address(out))
        return out

    @property
    def told(self) -> SamplerTotals:
        out = SamplerTotals()
        self._library.kb_fastex_tell(self._handle, byref(out))
        return out

    @property
    def proposed(self) -> int:
        return int(self.told.proposed)

    @property
    def moved(self) -> int:
        return int(self.told.moved)


def _free(library: CDLL, sampler: int, family: int) -> None:
    library.kb_fastex_free(sampler)
    library.kb_family_free(family)
