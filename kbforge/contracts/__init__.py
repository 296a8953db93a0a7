"""The terms of the domain, and one base class for each kind of plugin, with its laws."""

from kbforge.contracts.additive import AdditiveLikelihood
from kbforge.contracts.calibrator import CalibrationResult, Calibrator, Search
from kbforge.contracts.clusterer import (
    Clusterer,
    Interrupted,
    OnlineClusterer,
    OnStage,
    OnStep,
    Problem,
    Progress,
    Rounds,
    Stage,
)
from kbforge.contracts.constraints import Constraints, Decision
from kbforge.contracts.entity import Alternative, Entity, Explanation, Provenance, Value
from kbforge.contracts.exponential import ExponentialFamily, Points, SparseCounts
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.kept import LearnedState
from kbforge.contracts.likelihood import (
    CompiledClusters,
    ConjugateLikelihood,
    EncodedFragments,
    Features,
    FloatArray,
    IntArray,
    Likelihood,
    LiveClusters,
    Observation,
    SetMarginals,
)
from kbforge.contracts.posterior import (
    Cluster,
    Ending,
    Particle,
    Posterior,
    Subproblem,
    Subproblems,
)
from kbforge.contracts.resampler import Resampler
from kbforge.contracts.serializer import Canonical, Grammar, Serializer
from kbforge.contracts.session import (
    Checkpoint,
    Fate,
    Info,
    KeyFamilies,
    Page,
    Pages,
    Revision,
    Session,
    Snapshot,
    SubproblemChanges,
    Totals,
)
from kbforge.contracts.source import OnBad, Source
from kbforge.contracts.view import Change, DecisionRecord, Exporter, Kind, Run, View

__all__ = [
    "AdditiveLikelihood",
    "Alternative",
    "CalibrationResult",
    "Calibrator",
    "CandidateIndex",
    "Canonical",
    "Change",
    "Checkpoint",
    "Cluster",
    "Clusterer",
    "CompiledClusters",
    "ConjugateLikelihood",
    "Constraints",
    "Decision",
    "DecisionRecord",
    "EncodedFragments",
    "Ending",
    "Entity",
    "Explanation",
    "ExponentialFamily",
    "Exporter",
    "Fate",
    "Features",
    "FloatArray",
    "Fragment",
    "Grammar",
    "Info",
    "IntArray",
    "Interrupted",
    "KeyFamilies",
    "Kind",
    "LearnedState",
    "Likelihood",
    "LiveClusters",
    "Observation",
    "OnBad",
    "OnStage",
    "OnStep",
    "OnlineClusterer",
    "Page",
    "Pages",
    "Particle",
    "Points",
    "Posterior",
    "Problem",
    "Progress",
    "Provenance",
    "Resampler",
    "Revision",
    "Rounds",
    "Run",
    "Search",
    "Serializer",
    "Session",
    "SetMarginals",
    "Snapshot",
    "Source",
    "SparseCounts",
    "Stage",
    "Subproblem",
    "SubproblemChanges",
    "Subproblems",
    "Totals",
    "Value",
    "View",
]
