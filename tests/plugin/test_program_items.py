"""Programs of the settings file as items of pytest."""


def test_programs_are_items_and_all_of_them_run(pytester):
    pytester.makefile(".toml", lecturecheck='[programs]\nbroken = "sh -c \'exit 3\'"\n"two words" = ["true"]\n')

    result = pytester.runpytest_subprocess("--lecture-budget", "--lecture-no-leases", "-v")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "lecturecheck.toml::broken FAILED*",
            "lecturecheck.toml::two words PASSED*",
            "program ended with exit code 3",
            "FAILED lecturecheck.toml::broken - program ended with exit code 3",
        ]
    )


def test_programs_are_left_alone_without_the_plugins_options(pytester):
    pytester.makefile(".toml", lecturecheck='[programs]\na = "true"\n')

    assert pytester.runpytest_subprocess().ret == 5
