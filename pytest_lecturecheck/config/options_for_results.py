"""Options of what is measured, reported, kept, and handed to the build of the book: rows of the table of options."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.config.option_row import Option

RESULT_OPTIONS: Final = (
    Option(
        name="runs",
        group="measure",
        help="run each lecture N times (default: 1 to check, 3 to record)",
        reader="config.option_values.read_positive_count",
        metavar="N",
    ),
    Option(
        name="passes",
        group="measure",
        help="run all cells N times in each kernel; of the later passes only the times are kept, and compared with "
        "nothing",
        reader="config.option_values.read_positive_count",
        field="run.passes",
        default=1,
        metavar="N",
        in_lecture=True,
    ),
    Option(
        name="profile",
        group="measure",
        help="trace cells with jax.profiler: 'over' repeats a lecture that is over a limit and traces the cells "
        "concerned; '3,7' traces these cells and compares nothing. 'memory' and 'memory:3,7' do the same with memray: "
        "which lines hold the peak. 'levels' lists what stays in memory after each cell. Files are kept in "
        ".lecturecheck",
        reader="config.option_values.read_trace_request",
        metavar="CELLS",
    ),
    Option(
        name="repeat-cells",
        group="measure",
        help="after all that is measured, run each cell N times more in the same kernel, and name those that keep more "
        "memory each time: 5 for all cells, '5:3,7' for cells 3 and 7, '5:TAG' for cells with a tag",
        reader="config.option_values.read_repeat_request",
        field="session.repeats",
        metavar="N",
    ),
    Option(
        name="replay-capture",
        group="measure",
        help="before this cell save the state that it reads, so that lecturecheck replay runs it alone: a number, "
        "heaviest or failing (by the latest kept session); nothing is compared",
        reader="config.option_values.read_captured_cell",
        field="session.replay_capture",
        metavar="CELL",
        in_file=False,
    ),
    Option(
        name="replay-limit",
        group="measure",
        help="most bytes that --lecture-replay-capture writes for one lecture",
        reader="config.option_values.read_positive_size",
        field="session.replay_limit_bytes",
        default="4 GB",
        metavar="SIZE",
    ),
    Option(
        name="until",
        group="measure",
        help="run each lecture only until this cell: a number, or heaviest by the kept sessions; nothing is compared",
        reader="config.option_values.read_last_cell",
        field="session.until",
        metavar="CELL",
        in_file=False,
    ),
    Option(
        name="run-in-temp",
        group="measure",
        help="run in an empty temporary folder instead of the lecture's own",
        reader="config.option_values.read_flag",
        field="run.run_in_temp",
        default=False,
        on_command_line=False,
        in_file=False,
        in_lecture=True,
    ),
    Option(
        name="report",
        group="report",
        help="write a report; the file's ending selects the format: .html, .md, .json, .csv, .metrics.txt "
        "(OpenMetrics), .bmf.json, .benchmark.json, .customSmallerIsBetter.json or .shields.json; repeatable",
        reader="config.option_values.read_report",
        default=(),
        metavar="FILE",
        is_list=True,
    ),
    Option(
        name="history",
        group="report",
        help="append a line for each lecture to this file, which outlives the machine and is made to be committed",
        reader="config.option_values.read_history",
        metavar="FILE",
    ),
    Option(
        name="keep-runs",
        group="report",
        help="number of sessions kept in .lecturecheck/runs; 0 for none",
        reader="config.option_values.read_count",
        field="session.keep_runs",
        default=50,
        on_command_line=False,
    ),
    Option(
        name="github",
        group="report",
        help="false: write no job summary and no annotations on GitHub Actions",
        reader="config.option_values.read_flag",
        field="session.github",
        default=True,
        on_command_line=False,
    ),
    Option(
        name="heartbeat",
        group="report",
        help="interval of progress lines where there is no terminal, or off (default: 60 s if CI is set)",
        reader="config.option_values.read_heartbeat",
        field="session.heartbeat_seconds",
        on_command_line=False,
    ),
    Option(
        name="cloud-notices",
        group="report",
        help="true: on a machine of AWS, Google Cloud or Azure, watch for the notice that it is taken back",
        reader="config.option_values.read_flag",
        field="session.cloud_notices",
        default=False,
        on_command_line=False,
    ),
    Option(
        name="cache",
        group="book",
        help="put lectures that pass into the book's own cache, so that its build executes nothing again: the cache's "
        "folder, or auto for the one that the book's configuration names",
        reader="config.option_values.read_cache",
        metavar="DIR",
    ),
    Option(
        name="measure-cached",
        group="book",
        help="with --lecture-cache: also run lectures that the book's cache has already",
        reader="config.option_values.read_flag",
        field="session.measures_cached",
        default=False,
    ),
    Option(
        name="axes",
        group="measure",
        help="run each lecture with every combination of these values, such as 'size=10,1000 precision=f32,f64'; in "
        "the settings file a table [axes]",
        reader="model.axis.parse_axes",
        field="run.axes",
        metavar="AXES",
        in_lecture=True,
    ),
    Option(
        name="variants",
        group="measure",
        help="run only these variants: names of [variant.NAME], or values of axes such as 'device=cpu,precision=f64'",
        reader="model.axis.parse_variant_names",
        field="run.variants",
        metavar="NAMES",
        in_lecture=True,
    ),
    Option(
        name="variant",
        group="measure",
        help="tables [variant.NAME] with parameters, env, platform, and settings of a lecture such as gpu or timeout",
        reader="config.variants.parse_variants",
        field="session.variants",
        on_command_line=False,
    ),
    Option(
        name="compile-cache",
        group="measure",
        help="fresh: the first of several runs begins with an empty compile cache of JAX, and the others share it; "
        "kept: as the environment says (default: fresh for variants that are run several times)",
        reader="config.option_values.read_compile_cache",
        field="session.has_fresh_compile_cache",
        metavar="WHICH",
    ),
)
