"""Documents of made-up sessions on disk, and calls of the command over them."""

from __future__ import annotations

from pytest_lecturecheck.commands.main import main
from pytest_lecturecheck.report.json_report import render_json
from pytest_lecturecheck.store.runs import run_to_dict, verdict_to_dict
from pytest_lecturecheck.store.session_history import keep_session


def document(session):
    """Return a session as its JSON document."""
    records = [
        {"run": run_to_dict(run.run), "verdict": verdict_to_dict(run.verdict), "seconds": run.seconds}
        for run in session.runs
    ]
    about = {"ended": session.ended.isoformat(), "mode": "check", "version": "1.0"}
    return render_json(records, [], platform=session.platform, about=about)


def keep(book, *sessions):
    """Keep sessions in a folder, and return their files."""
    folder = book / ".lecturecheck" / "runs"
    return [keep_session(folder, document(session), now=session.ended, most=99) for session in sessions]


def call(capsys, *arguments):
    """Call the command; return exit status, standard output and standard error."""
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err
