"""The plugin registry: what is installed, made by name with options, and described.

`discovery` finds plugins, `options` binds what a user sets to their constructors, `describe` says
what they take.
"""

from kbforge.registry.discovery import (
    KINDS,
    Damaged,
    Plugin,
    check,
    create,
    damaged,
    find,
    installed,
    kind_called,
    load,
    names,
    singular,
)
from kbforge.registry.endings import ending_of, plugin_of, require_plugin_of

__all__ = [
    "KINDS",
    "Damaged",
    "Plugin",
    "check",
    "create",
    "damaged",
    "ending_of",
    "find",
    "installed",
    "kind_called",
    "load",
    "names",
    "plugin_of",
    "require_plugin_of",
    "singular",
]
