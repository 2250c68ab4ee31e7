"""
Render a session as one HTML file that needs nothing else: no server, no network, no other file.

``overview.py`` collects the top of the page and its rows, ``detail.py`` everything about one lecture, ``charts.py``
and ``members.py`` the data that ``assets/report.js`` draws. ``page.py`` puts them into ``assets/page.html.jinja`` and
adds the content security policy. Start with ``page.py``.
"""

from pytest_lecturecheck.report.html.page import render_html

__all__ = ["render_html"]
