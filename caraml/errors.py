"""Errors that a user can fix; each message has what was asked, what was found and what to do."""

from __future__ import annotations


class CaramlError(Exception):
    """The command cannot do what was asked."""


class SiteError(CaramlError):
    """Settings of a site, a system, a workload or an image cannot be used."""


class SchedulerError(CaramlError):
    """The scheduler does not answer."""
