"""The plugin registry: what is installed, made by name with options, and described.

`discovery` finds plugins; `options` describes their options and binds what a user sets.
"""

from kbforge.registry.discovery import (
    KINDS,
    DamagedDistribution,
    Plugin,
    check,
    create,
    damaged,
    ending_of,
    find,
    installed,
    kind_called,
    kinds,
    load,
    names,
    plugin_of,
    require_plugin_of,
    singular,
)

__all__ = [
    "KINDS",
    "DamagedDistribution",
    "Plugin",
    "check",
    "create",
    "damaged",
    "ending_of",
    "find",
    "installed",
    "kind_called",
    "kinds",
    "load",
    "names",
    "plugin_of",
    "require_plugin_of",
    "singular",
]
