"""The session as one HTML file that needs nothing else: no server, no network, no other file."""

from pytest_lecturecheck.report.html.page import render_html

__all__ = ["render_html"]
