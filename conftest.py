"""The tests of this repository run with kvwitness's own plugin: options, Hypothesis profiles, witness files."""

from __future__ import annotations

import pytest

from kvwitness import pytest_plugin, pytest_project

pytest_project.register_profiles()


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load both plugins, unless the installation has loaded the first one already."""
    for name, plugin in (("kvwitness", pytest_plugin), ("kvwitness-project", pytest_project)):
        if not pluginmanager.is_registered(plugin):
            pluginmanager.register(plugin, name)
