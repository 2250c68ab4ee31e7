from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.process.stderr import stderr_tail

CRASH = """\
before
Fatal Python error: Segmentation fault

Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x00007f2 (most recent call first):
  File "/tmp/ipykernel_9/1.py", line 2 in inner
  File "/tmp/ipykernel_9/1.py", line 4 in <module>
  File "/v/site-packages/IPython/core/interactiveshell.py", line 3831 in run_code
  File "/v/site-packages/ipykernel/kernelapp.py", line 99 in start
  File "<frozen runpy>", line 88 in _run_code

Extension modules: zmq.backend.cython._zmq, numpy (total: 2)
after
"""


def test_messages_of_ipykernel_are_dropped():
    text = (
        "[IPKernelApp] WARNING | Kernel is running over TCP without encryption. Communication (including code and "
        "outputs) is sent in plain text\n"
        "0.00s - Debugger warning: It seems that frozen modules are being used, which may\n"
        "0.00s - make the debugger miss breakpoints. Please pass -Xfrozen_modules=off\n"
        "0.00s - to python to disable frozen modules.\n"
        "0.00s - Note: Debugging will proceed. Set PYDEVD_DISABLE_FILE_VALIDATION=1 to disable this validation.\n"
        "\n"
        "cannot load libexample.so.3   \n"
    )
    assert stderr_tail(text) == ("cannot load libexample.so.3",)


def test_a_crash_dump_keeps_fault_and_own_frames():
    assert stderr_tail(CRASH) == (
        "before",
        "Fatal Python error: Segmentation fault",
        '  File "/tmp/ipykernel_9/1.py", line 2 in inner',
        '  File "/tmp/ipykernel_9/1.py", line 4 in <module>',
        "after",
    )


def test_a_native_stack_does_not_displace_earlier_lines():
    said = "F0101 stream.cc:99] Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED"
    frames = [f"    @     0x7f3c2c0b{number:04x}  (unknown)" for number in range(60)]
    llvm = [f" #{number} 0x00007f3c2c0b{number:04x} abort (/lib/libc.so.6+0x2)" for number in range(60)]
    tail = stderr_tail("\n".join([said, *frames, "PC: @     0x7f3c2c0b6090  raise", "between", *llvm, "Aborted"]))
    assert tail == (said, *frames[:3], "between", *llvm[:3], "Aborted")


def test_a_lecture_may_print_what_looks_like_a_frame():
    line = '  File "x.py", line 3 in f'
    assert stderr_tail(line) == (line,)


@given(st.text())
def test_the_tail_is_bounded_for_any_text(text):
    tail = stderr_tail(text)
    assert len(tail) <= 30
    assert all(0 < len(line) <= 500 for line in tail)


def test_the_last_lines_are_the_ones_that_are_kept():
    tail = stderr_tail("\n".join(f"line {number}" for number in range(100)))
    assert tail == tuple(f"line {number}" for number in range(70, 100))


def test_stderr_of_earlier_cells_is_separated(bench):
    run = bench.run(
        "import os\nos.write(2, b'survived this\\n' * 3)",
        "import os\nos.write(2, b'last words\\n')\nos.abort()",
    )
    lines, earlier = run.evidence.exit.stderr_tail, run.evidence.exit.stderr_earlier_count
    assert lines[:3] == ("survived this",) * 3
    assert earlier == 3
    assert run.evidence.exit.cell_stderr[0] == "last words"
