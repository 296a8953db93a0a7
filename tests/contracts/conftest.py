"""A contract's tests run for each of its class's `plugins`: a name, or a name with options."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pytest

Plugins: TypeAlias = Sequence[str | tuple[str, Mapping[str, object]]]


def plugins_of(contract: type) -> Sequence[tuple[str, Mapping[str, object]]]:
    """The plugins that a class tests, each with options."""
    plugins: Plugins = getattr(contract, "plugins", ())
    return [(one, {}) if isinstance(one, str) else one for one in plugins]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is not None and (plugins := plugins_of(metafunc.cls)):
        metafunc.parametrize("plugin", plugins, indirect=True, ids=[name for name, _ in plugins])


@pytest.fixture(autouse=True)
def plugin(request):
    """Tell the contract which plugin is tested."""
    if hasattr(request, "param"):
        request.instance.name, request.instance.options = request.param
