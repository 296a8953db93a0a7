"""The fixtures of all sources."""

from tests.sources.conftest import bad_record, refused, written

__all__ = ["bad_record", "refused", "written"]
