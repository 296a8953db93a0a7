"""The words of the domain and one protocol a kind of plugin, each with its laws."""

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
    Unindexed,
)
from kbforge.contracts.entity import Alternative, Entity, Explanation, Value
from kbforge.contracts.exporter import Exporter
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.grammar import Grammar
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.likelihood import (
    Accompanied,
    Bundled,
    ConjugateLikelihood,
    EditableClusters,
    Explaining,
    FloatArray,
    Indexed,
    IntArray,
    Likelihood,
    LiveClusters,
    MergeableClusters,
    Observation,
    SelectiveClusters,
    SelfFitting,
)
from kbforge.contracts.resampler import Resampler
from kbforge.contracts.serializer import Canonical, Serializer
from kbforge.contracts.source import OnBad, Source

__all__ = [
    "Accompanied",
    "Alternative",
    "Bundled",
    "CalibrationResult",
    "Calibrator",
    "CandidateIndex",
    "Canonical",
    "Cluster",
    "Clusterer",
    "ConjugateLikelihood",
    "EditableClusters",
    "Ending",
    "Entity",
    "Explaining",
    "Explanation",
    "Exporter",
    "FloatArray",
    "Fragment",
    "Grammar",
    "Indexed",
    "IntArray",
    "Interrupted",
    "Likelihood",
    "LiveClusters",
    "MergeableClusters",
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
    "SelectiveClusters",
    "SelfFitting",
    "Serializer",
    "Source",
    "Subproblem",
    "Unindexed",
    "Value",
]
