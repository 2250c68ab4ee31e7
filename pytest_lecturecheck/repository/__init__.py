"""
What the repository around the lectures says: changes since a commit, references in code, workflows, variables.

In come folders, names of commits, and code. Out go facts about files. Nothing is executed but git, and git gets no
shell. Start reading in :mod:`~pytest_lecturecheck.repository.tree_changes` for what changed, and in
:mod:`~pytest_lecturecheck.repository.workflow_audit` for the check of workflows.
"""
