"""The API: the same answers as the pages, and what writes, under /api."""

from __future__ import annotations

from fastapi import APIRouter

from kbforge.serve.service import Service


def router(service: Service) -> APIRouter:
    """The routes of the API."""
    return APIRouter(prefix="/api")
