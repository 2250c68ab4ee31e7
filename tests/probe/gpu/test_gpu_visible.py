import pytest

from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.probe.gpu._visible import visible_positions

ALIKE = [Device(index=index, name="Tesla T4", uuid=f"GPU-{letter}1") for index, letter in enumerate("abc")]
DIFFERENT = [ALIKE[0], Device(index=1, name="NVIDIA A100", uuid="GPU-d1")]
DIVIDED = [
    ALIKE[0],
    Device(index=1, name="Tesla T4 MIG 1g", uuid="MIG-1a", is_slice=True),
    Device(index=1, name="Tesla T4 MIG 2g", uuid="MIG-1b", is_slice=True),
]


@pytest.mark.parametrize(
    ("devices", "text", "positions"),
    [
        (ALIKE, None, (0, 1, 2)),
        (ALIKE, "", ()),
        (ALIKE, "-1", ()),
        (ALIKE, "NoDevFiles", ()),
        (ALIKE, "1", (1,)),
        (ALIKE, " 2 , 0 ", (0, 2)),
        (ALIKE, "0,-1,1", (0,)),
        (ALIKE, "0,7,1", (0,)),
        (ALIKE, "1,1", ()),
        (ALIKE, "GPU-b1", (1,)),
        (ALIKE, "GPU-b,GPU-a", (0, 1)),
        (ALIKE, "GPU-", ()),
        (ALIKE, "GPU-x", ()),
        (ALIKE, "b1", ()),
        (ALIKE, "²", ()),
        (DIFFERENT, "1", (0, 1)),
        (DIFFERENT, "GPU-d1", (1,)),
        (DIFFERENT, "", ()),
        (DIVIDED, "MIG-1b", (2,)),
        (DIVIDED, "1", (1, 2)),
        ([], None, ()),
    ],
)
def test_what_cuda_shows(devices, text, positions):
    environ = {} if text is None else {"CUDA_VISIBLE_DEVICES": text}
    assert visible_positions(devices, environ) == positions


def test_indexes_are_nvmls_where_cuda_counts_by_bus():
    environ = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible_positions(DIFFERENT, environ) == (1,)
