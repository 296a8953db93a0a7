"""The laboratory: reproduces and compares source papers; no default of KBForge needs it.

It is plugged in through entry points, as a stranger's package is, and imports what it likes of
KBForge. Nothing of KBForge imports it: KBForge works without this folder.
"""
