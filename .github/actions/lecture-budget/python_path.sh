# shellcheck shell=bash
# Sourced by login shells. Those of Debian's images set PATH anew, and lose the Python that the job has put there. A Conda
# environment that the login shell has activated stays.
case ":$PATH:" in
*":${PYTHON_FOLDER:-}:"* | *":${CONDA_PREFIX:-/no/conda}/bin:"*) ;;
*) if [ -n "${PYTHON_FOLDER:-}" ]; then export PATH="$PYTHON_FOLDER:$PATH"; fi ;;
esac
