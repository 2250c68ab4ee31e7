"""Notices of clouds, from recorded answers; no network is used."""

import json

import pytest

from pytest_lecturecheck.session.cloud_notices import Cloud, NoticeWatch, detect_cloud, read_notice

TOKEN = ("PUT", "/latest/api/token")
SPOT = ("GET", "/latest/meta-data/spot/instance-action")
PREEMPTED = ("GET", "/computeMetadata/v1/instance/preempted")
EVENTS = ("GET", "/metadata/scheduledevents?api-version=2020-07-01")


def answers(known):
    """A metadata service; headers that it requires are checked."""
    required = {
        TOKEN: {"X-aws-ec2-metadata-token-ttl-seconds": "60"},
        SPOT: {"X-aws-ec2-metadata-token": "secret"},
        PREEMPTED: {"Metadata-Flavor": "Google"},
        EVENTS: {"Metadata": "true"},
    }

    def fetch(method, path, headers):
        assert headers == required[method, path]
        return known.get((method, path), "")

    return fetch


def events(*kinds):
    return {EVENTS: json.dumps({"Events": [{"EventType": kind, "NotBefore": "18:29:47 GMT"} for kind in kinds]})}


@pytest.mark.parametrize(
    ("cloud", "known", "notice"),
    [
        (
            Cloud.AWS,
            {TOKEN: "secret", SPOT: '{"action": "terminate", "time": "2026-11-29T18:30:00Z"}'},
            "AWS takes this spot instance back: terminate at 2026-11-29T18:30:00Z",
        ),
        (Cloud.AWS, {TOKEN: "secret"}, ""),
        (Cloud.AWS, {TOKEN: "secret", SPOT: "[]"}, ""),
        (Cloud.GOOGLE, {PREEMPTED: "TRUE"}, "Google Cloud takes this machine back within 30 s (preempted)"),
        (Cloud.GOOGLE, {PREEMPTED: "FALSE"}, ""),
        (
            Cloud.AZURE,
            events("Freeze", "Preempt"),
            "Azure takes this machine back: Preempt, not before 18:29:47 GMT",
        ),
        (Cloud.AZURE, events("Freeze"), ""),
        (Cloud.AZURE, {EVENTS: '{"Events": 5}'}, ""),
        (Cloud.AZURE, {EVENTS: "<html>"}, ""),
    ],
)
def test_notices(cloud, known, notice):
    assert read_notice(cloud, answers(known)) == notice


def test_a_notice_is_one_safe_line():
    hostile = {TOKEN: "secret", SPOT: json.dumps({"action": "a\n\x1b[31m" * 1000, "time": 1})}
    text = read_notice(Cloud.AWS, answers(hostile))
    assert len(text) <= 201
    assert "\n" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("facts", "cloud"),
    [
        ({"sys_vendor": "Amazon EC2\n"}, Cloud.AWS),
        ({"sys_vendor": "Google\n"}, Cloud.GOOGLE),
        (
            {"sys_vendor": "Microsoft Corporation\n", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n"},
            Cloud.AZURE,
        ),
        ({"sys_vendor": "Microsoft Corporation\n", "chassis_asset_tag": "1\n"}, None),
        ({}, None),
    ],
)
def test_the_firmware_names_the_cloud(tmp_path, facts, cloud):
    folder = tmp_path / "sys" / "class" / "dmi" / "id"
    folder.mkdir(parents=True)
    for name, text in facts.items():
        (folder / name).write_text(text)
    assert detect_cloud(tmp_path) is cloud


def test_the_watch_reports_one_notice_and_ends():
    found = []
    watch = NoticeWatch(Cloud.GOOGLE, found.append, answers({PREEMPTED: "TRUE"}))
    watch.start()
    watch._thread.join()
    watch.stop()
    assert len(found) == 1


def test_a_watch_without_a_notice_stops():
    watch = NoticeWatch(Cloud.GOOGLE, None, answers({}))
    assert watch.poll() is False
    watch.start()
    watch.stop()
    watch.stop()
    assert not watch._thread.is_alive()
