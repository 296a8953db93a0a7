"""The words of the domain and one base class a kind of plugin, each with its laws."""

from kbforge.contracts.additive import AdditiveLikelihood
from kbforge.contracts.calibrator import CalibrationResult, Calibrator, Search
from kbforge.contracts.clusterer import (
    Cluster,
    Clusterer,
    Ending,
    Interrupted,
    OnStep,
    Particle,
    Posterior,
    Problem,
    Progress,
    Rounds,
    Subproblem,
)
from kbforge.contracts.entity import Alternative, Entity, Explanation, Value
from kbforge.contracts.exporter import Exporter
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.grammar import Grammar
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.likelihood import (
    ConjugateLikelihood,
    FloatArray,
    IntArray,
    Likelihood,
    LiveClusters,
    Observation,
)
from kbforge.contracts.resampler import Resampler
from kbforge.contracts.serializer import Canonical, Serializer
from kbforge.contracts.source import OnBad, Source

__all__ = [
    "AdditiveLikelihood",
    "Alternative",
    "CalibrationResult",
    "Calibrator",
    "CandidateIndex",
    "Canonical",
    "Cluster",
    "Clusterer",
    "ConjugateLikelihood",
    "Ending",
    "Entity",
    "Explanation",
    "Exporter",
    "FloatArray",
    "Fragment",
    "Grammar",
    "IntArray",
    "Interrupted",
    "Likelihood",
    "LiveClusters",
    "Observation",
    "OnBad",
    "OnStep",
    "Particle",
    "Posterior",
    "Problem",
    "Progress",
    "Resampler",
    "Rounds",
    "Search",
    "Serializer",
    "Source",
    "Subproblem",
    "Value",
]
