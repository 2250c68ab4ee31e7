"""Reads stub libraries with the real pynvml, in a process of its own: one script of the stub to a line, as JSON."""

import dataclasses
import json
import os
import sys
from pathlib import Path

from pytest_lecturecheck.probe.gpu._nvml import open_cards
from pytest_lecturecheck.probe.gpu._readings import Failure


def read(first, later):
    path = Path(os.environ["NVML_STUB"])
    path.write_text(first, "utf-8")
    cards = open_cards()
    if isinstance(cards, Failure):
        return {"failure": dataclasses.asdict(cards)}
    moments = []
    for script in (first, *later):
        path.write_text(script, "utf-8")
        readings = [cards.read(position, 1.5) for position in range(len(cards.devices))]
        moments.append([dataclasses.asdict(item) for item in readings])
    cards.close()
    cards.close()
    devices = [dataclasses.asdict(device) for device in cards.devices]
    return {"devices": devices, "driver": cards.driver, "cuda": cards.cuda, "moments": moments}


for line in sys.stdin:
    sys.stdout.write(json.dumps(read(*json.loads(line))) + "\n")
    sys.stdout.flush()
