"""
Time a gate with --lecture-cache and the build behind it, against a build alone, and compare the pages.

Each way begins with a fresh copy of the book, without any cache. A startup file of IPython seeds random numbers, and
hashes of strings are the same in every kernel, so that pages of two ways can be equal. Run it in the environment of the
book:

    python benchmarks/book.py BOOK --build "jupyter-book build ."
    python benchmarks/book.py BOOK --build "myst build --site --execute"

``--show`` prints how pages differ, with the tags of HTML and the values of JSON on lines of their own.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GATE = [sys.executable, "-m", "pytest", "--lecture-budget", "--lecture-cache", "auto", "--lecture-no-leases", "-q"]
WAYS = {"build": None, "gate + build": GATE, "gate -n 2 + build": [*GATE, "-n", "2"]}
EXECUTED = re.compile(r"Executed notebook in|Executing notebook \(")
CACHED = re.compile(r"Using cached notebook|Adding cached notebook outputs")
# Just before the first cell: until then a kernel itself draws numbers, more of them with TCP than with ipc sockets.
SEED = """
def _seed(*_):
    import random, numpy
    get_ipython().events.unregister("pre_run_cell", _seed)
    random.seed(0)
    numpy.random.seed(0)
get_ipython().events.register("pre_run_cell", _seed)
"""
NOISE = (
    (re.compile(r"0x[0-9a-f]{8,}|\b\d{14,15}\b"), "ADDRESS"),
    # mystmd makes new keys in every build, and names static files by their folder: files of outputs have no name before
    # the hash.
    (re.compile(r'"(key|id|html_id|identifier|label|thumbnail)":"[^"]*"|-[0-9a-f]{32}(?=\.\w)'), "KEY"),
    (re.compile(r"\d+(\.\d+)? ?(seconds|second|ms|μs|µs|us|ns|s)\b"), "TIME"),
    # ipykernel sends a stream in pieces that depend on its timer. myst-nb and mystmd show each piece, or
    # myst-nb puts line ends between them. Two builds without a gate differ in it, too.
    (
        re.compile(
            r"\s*</pre>\s*</div>\s*</div>\s*"
            r'<div class="output stream[^"]*">\s*<div class="highlight">\s*<pre>\s*<span>\s*</span>'
        ),
        " ",
    ),
    (
        re.compile(
            r'"\},KEY\},\{"type":"output","children":\[\],'
            r'"jupyter_data":\{"output_type":"stream","name":"stdout","text":"'
        ),
        "",
    ),
    (re.compile(r"\s+"), " "),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path)
    parser.add_argument("--build", required=True, help="command that builds the book in its folder")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--show", action="store_true", help="print how pages differ")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lc-book-") as folder:
        base = Path(folder)
        startup = base / "ipython" / "profile_default" / "startup" / "00-seed.py"
        startup.parent.mkdir(parents=True)
        startup.write_text(SEED, encoding="utf-8")
        # Sets of strings have another order in every kernel otherwise: sympy exchanges the axes of a 3D plot then.
        environment = {**os.environ, "IPYTHONDIR": str(base / "ipython"), "PYTHONHASHSEED": "0"}
        times, pages = {}, {}
        for number, name in enumerate(arguments.ways):
            # Names of one length, because messages cut long paths.
            copy = base / f"copy{number}" / "book"
            ignored = shutil.ignore_patterns("_build", ".lecturecheck", "*.pyc")
            shutil.copytree(arguments.book, copy, ignore=ignored)
            times[name] = run(name, copy, shlex.split(arguments.build), environment)
            pages[name] = read_pages(copy)
    first = next(iter(times))
    for name, (seconds, executed, cached) in times.items():
        different = [page for page, text in pages[name].items() if text != pages[first].get(page)]
        print(
            f"{name:18} {seconds:7.1f} s  {seconds / times[first][0]:5.2f}  executed by the build: {executed}, "
            f"from the cache: {cached}; pages that differ: {', '.join(different) or 'none'} of {len(pages[name])}"
        )
        for page in different if arguments.show else ():
            print(describe_difference(page, pages[first].get(page, ""), pages[name][page]))


def run(name: str, folder: Path, build: list[str], environment: dict[str, str]) -> tuple[float, int, int]:
    began = time.perf_counter()
    gate = WAYS[name]
    if gate is not None:
        done = subprocess.run(gate, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        print(f"{name}: gate {time.perf_counter() - began:.1f} s, exit {done.returncode}", flush=True)
        print(
            "\n".join(line for line in done.stdout.splitlines() if "the cache of" in line or line.startswith("FAILED"))
        )
    # mystmd ends with an error where it finds no theme on the internet; its pages are written before.
    log = folder / "build.log"
    with log.open("w", encoding="utf-8") as stream:
        subprocess.run(build, cwd=folder, env=environment, stdout=stream, stderr=stream, check=False)
    seconds = time.perf_counter() - began
    text = log.read_text(encoding="utf-8")
    return seconds, len(EXECUTED.findall(text)), len(CACHED.findall(text))


def describe_difference(name: str, before: str, after: str) -> str:
    """Return the lines of two pages that differ, at most forty, each of at most 300 characters."""
    old, new = (re.sub(r"(<|,\"|\\n)", r"\n\1", text).splitlines() for text in (before, after))
    changed = list(difflib.unified_diff(old, new, name, name, n=0, lineterm=""))
    return "\n".join(line[:300] for line in changed[:40])


def read_pages(folder: Path) -> dict[str, str]:
    """Return the built pages without addresses, times and the name of the copy; figures are named by their content."""
    found = [*folder.glob("_build/html/*.html"), *folder.glob("_build/site/content/*.json")]
    pages = {}
    for path in found:
        text = path.read_text(encoding="utf-8").replace(folder.parent.name, "COPY")
        for pattern, word in NOISE:
            text = pattern.sub(word, text)
        pages[path.name] = text
    return pages


if __name__ == "__main__":
    main()
