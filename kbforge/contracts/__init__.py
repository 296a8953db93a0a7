"""The words of the domain and one base class a kind of plugin, each with its laws."""

from kbforge.contracts.additive import AdditiveLikelihood
from kbforge.contracts.calibrator import CalibrationResult, Calibrator, Search
from kbforge.contracts.clusterer import Clusterer, OnlineClusterer, Problem
from kbforge.contracts.constraints import Constraints, Decision
from kbforge.contracts.entity import Alternative, Entity, Explanation, Made, Value
from kbforge.contracts.exponential import ExponentialFamily, Points, SparseCounts
from kbforge.contracts.exporter import Exporter
from kbforge.contracts.features import Features
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.grammar import Grammar
from kbforge.contracts.history import Change, Decided, Kind, Run
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.kept import Kept
from kbforge.contracts.likelihood import (
    CompiledClusters,
    ConjugateLikelihood,
    Encoded,
    FloatArray,
    IntArray,
    Likelihood,
    LiveClusters,
    Observation,
    SetMarginals,
)
from kbforge.contracts.paging import Checkpoint, Led, Page, Pages, Totals
from kbforge.contracts.posterior import (
    Cluster,
    Ending,
    Particle,
    Posterior,
    Subproblem,
    Subproblems,
)
from kbforge.contracts.progress import Interrupted, OnStage, OnStep, Progress, Rounds, Stage
from kbforge.contracts.resampler import Resampler
from kbforge.contracts.serializer import Canonical, Serializer
from kbforge.contracts.session import Fate, Info, Revised, Session, Snapshot, Touched
from kbforge.contracts.source import OnBad, Source
from kbforge.contracts.view import View

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
    "Decided",
    "Decision",
    "Encoded",
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
    "Kept",
    "Kind",
    "Led",
    "Likelihood",
    "LiveClusters",
    "Made",
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
    "Resampler",
    "Revised",
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
    "Subproblems",
    "Totals",
    "Touched",
    "Value",
    "View",
]
