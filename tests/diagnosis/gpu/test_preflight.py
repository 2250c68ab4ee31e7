"""Cards and drivers against what the installed JAX needs."""

import pytest

from pytest_lecturecheck.diagnosis.gpu.preflight import preflight_lines
from pytest_lecturecheck.model.device import Device

NEW, OLD = {"jax-cuda13-plugin": "0.10.2"}, {"jax-cuda12-plugin": "0.9.0"}
SLOW, CARD = ", float64 at {} of the speed of float32", ": this card with driver"
OLD_FLOOR = "; jax-cuda12-plugin 0.9.0 needs SM 5.2 and driver 525"
FLOOR = "; jax-cuda13-plugin 0.10.2 needs SM 7.5 and driver 580"


@pytest.mark.parametrize(
    ("capability", "driver", "packages", "expected"),
    [
        ("7.5", "580.65", NEW, f"SM 7.5{SLOW.format('1/32')}{FLOOR}{CARD} 580.65 is at it"),
        ("9.0", "590.1", NEW, f"SM 9.0{SLOW.format('1/2')}{FLOOR}{CARD} 590.1 is above it"),
        ("7.0", "580.1", NEW, f"SM 7.0{SLOW.format('1/2')}{FLOOR}{CARD} 580.1 is below it, and JAX will not use it"),
        ("12.0", None, OLD, f"SM 12.0{SLOW.format('1/64')}{OLD_FLOOR}; the driver's version is not known"),
        ("10.3", None, OLD, f"SM 10.3{OLD_FLOOR}; the driver's version is not known"),
        ("7.5", "550", {}, f"SM 7.5{SLOW.format('1/32')}"),
        ("", "550", {}, "its compute capability could not be read"),
    ],
)
def test_each_card_has_a_line(capability, driver, packages, expected):
    card = Device(index=0, name="Tesla T4", compute_capability=capability)
    assert list(preflight_lines([card], driver, packages)) == [f"GPU 0 (Tesla T4): {expected}"]
