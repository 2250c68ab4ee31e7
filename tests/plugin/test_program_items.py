"""Programs of the settings file as items of pytest."""


def test_programs_are_items_and_all_of_them_run(pytester):
    pytester.makefile(
        ".toml",
        lecturecheck='[declared]\ndisk = "9 TB"\n[programs]\nbroken = "sh -c \'exit 3\'"\n"two words" = ["true"]\n',
    )

    result = pytester.runpytest_subprocess("--lecture-budget", "--lecture-no-leases", "-v")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "lecturecheck.toml::broken FAILED*",
            "lecturecheck.toml::two words PASSED*",
            "program ended with exit code 3",
            "Measured until its end",
            "  peak footprint: *",
            "two words *-",
            "FAILED lecturecheck.toml::broken - program ended with exit code 3",
        ]
    )
    # A program has neither cells nor a kernel.
    for word in ("*code cell*", "*ells so far*", "*of the kernel*"):
        result.stdout.no_fnmatch_line(word)


def test_programs_are_left_alone_without_the_plugins_options(pytester):
    pytester.makefile(".toml", lecturecheck='[programs]\na = "true"\n')

    assert pytester.runpytest_subprocess().ret == 5
