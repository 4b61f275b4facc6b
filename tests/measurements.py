"""Measurements made by hand, of several kinds of data: what `npyflow measure --json` would print."""

from __future__ import annotations

from typing import Any

SCRIPT = "<script>alert(1)</script>"
PICTURE = '"><img src=x onerror="alert(2)">'
EMOJI = "🦆 ducks 👩🏽‍🔬"
RIGHT_TO_LEFT = "صور القطط / حصان"
LONG = "class-" + "very-long-" * 30 + "end"
MATHEMATICS = "$\\frac{1$ & {{x}} 'q'"
CONTROL = "a\x00b\u202ec\udcff\nd"
UNBROKEN = "W" * 300
HOSTILE = [SCRIPT, PICTURE, EMOJI, RIGHT_TO_LEFT, LONG, MATHEMATICS, CONTROL, UNBROKEN, "", "</title></style></svg>"]


def way(name: str, per_s: float, examples: int, size: float, **more: Any) -> dict[str, Any]:
    facts = {
        "name": name,
        "call": f"nf.files(...).to_tf(32, shuffle=True)  # {name}",
        "examples_per_s": per_s,
        "low": per_s * 0.94,
        "high": per_s * 1.05,
        "mb_per_s": per_s * size / 1e6,
        "batches_per_s": per_s / 32,
        "memory_bytes": 12_400_000,
        "epoch_s": examples / per_s,
        "today": False,
        "recipe": False,
        "note": "",
    }
    return facts | more


def stage(name: str, warm: float | None, cold: float | None, share: float) -> dict[str, Any]:
    return {"name": name, "warm_us": warm, "cold_us": cold, "share": share}


def measurement(**more: Any) -> dict[str, Any]:
    """Many tiny files with classes: packing is worth it."""
    examples, size = 20_000, 4096.0
    facts = {
        "format": "npyflow measurement",
        "version": 1,
        "path": "/data/spectra/train",
        "examples": examples,
        "bytes_per_example": size,
        "total_bytes": 84_480_000,
        "batch_size": 32,
        "machine": {
            "cpus": 2,
            "memory_bytes": 8_200_000_000,
            "python": "3.11.7",
            "numpy": "2.4.1",
            "tensorflow": "2.21.0",
            "npyflow": "0.5.0",
        },
        "census": {
            "files": examples,
            "file_bytes": {
                "edges": [1000.0, 1584.9, 2511.9, 3981.1, 6309.6, 10000.0, 15848.9, 25118.9],
                "counts": [12, 150, 1300, 14038, 3500, 900, 100],
            },
            "shapes": [["(32, 32)", 14038], ["(16, 32)", 3500], ["(64, 32)", 2462]],
            "dtypes": [["float32", examples * 2 - 3], ["float64", 3]],
            "classes": [[f"species {at:02d}", 2000 - 55 * at] for at in range(31)],
            "components": [
                {"name": "spectrum", "dtype": "float32", "shape": "(None, 32)"},
                {"name": "label", "dtype": "int64", "shape": "()"},
            ],
        },
        "stages": [
            stage("list", 1.2, 9.0, 0.02),
            stage("open", 9.4, 180.0, 0.19),
            stage("header", 6.1, 310.0, 0.12),
            stage("read", 4.8, 92.0, 0.1),
            stage("copy", 0.7, 0.8, 0.01),
            stage("cast", 2.9, 2.9, 0.06),
            stage("hand-over", 24.9, 25.0, 0.5),
        ],
        "cold": "",
        "ways": [
            way("files", 21_300.0, examples, size, today=True),
            way("packed", 148_000.0, examples, size, note="on a sample of 6,000 examples"),
            way("ram", 151_000.0, examples, size, memory_bytes=82_000_000),
            way("tfrecord", 61_000.0, examples, size, note="shuffled within 1,000 examples only"),
            way("recipe", 5_130.0, examples, size, recipe=True),
        ],
        "batch_sizes": [
            {"batch_size": 32, "examples_per_s": 21_300.0},
            {"batch_size": 64, "examples_per_s": 23_900.0},
            {"batch_size": 128, "examples_per_s": 24_800.0},
        ],
        "pack": {"seconds": 2.4, "bytes": 82_000_000, "break_even_epochs": 3.0},
        "step_ms": None,
        "bottleneck": None,
        "verdict": {
            "rule": "pack",
            "best": "packed",
            "headline": "Pack the files: an epoch takes 0.14 s in place of 0.94 s.",
            "reasons": [
                "Opening 20,000 small files costs half of the time; packed, it is paid once for a shard.",
                "Packing takes 2.4 s and is paid back after 3 epochs.",
            ],
            "commands": [
                "npyflow pack /data/spectra/train /data/spectra/train-packed",
                'flow = nf.load("/data/spectra/train-packed")',
            ],
        },
        "seconds": 58.2,
        "notes": ["The packed and TFRecord ways were measured on a sample of 6,000 examples from all over the data."],
    }
    return facts | more


def large_array() -> dict[str, Any]:
    """One large array, no folder of files, no TensorFlow, a model's step given, nothing measured cold."""
    examples, size = 3_000_000, 196_608.0
    facts = measurement(
        path="/mnt/volume/images.npy", examples=examples, bytes_per_example=size, total_bytes=589_824_000_128
    )
    facts["machine"] = facts["machine"] | {"tensorflow": None}
    facts["census"] = {
        "files": 1,
        "file_bytes": {"edges": [589_824_000_128.0, 589_824_000_129.0], "counts": [1]},
        "shapes": [["(128, 128, 3)", examples]],
        "dtypes": [["float32", examples]],
        "classes": [],
        "components": [{"name": "", "dtype": "float32", "shape": "(128, 128, 3)"}],
    }
    facts["stages"] = [
        stage("read", 48.0, None, 0.7),
        stage("copy", 20.6, None, 0.3),
        stage("hand-over", None, None, 0.0),
    ]
    facts["cold"] = "Cold: not measured here, because the file system keeps its pages (tmpfs)."
    facts["ways"] = [
        way("read", 14_800.0, examples, size, today=True),
        way("mmap", 13_900.0, examples, size),
    ]
    facts["batch_sizes"] = []
    facts["pack"] = None
    facts["step_ms"] = 31.0
    facts["bottleneck"] = {
        "who": "model",
        "input_ms": 2.2,
        "step_ms": 31.0,
        "text": "The input takes 2.2 ms of each step of 31 ms and runs beside it: the model is the bottleneck.",
    }
    facts["verdict"] = {
        "rule": "keep",
        "best": "read",
        "headline": "Keep it as it is.",
        "reasons": ["No other way is more than 10 % faster."],
        "commands": [],
    }
    facts["notes"] = ["TensorFlow is not installed: batches() was measured, and no hand-over."]
    return facts


def varying() -> dict[str, Any]:
    """Variable lengths: hundreds of shapes, long tails."""
    facts = measurement(path="recordings/2024")
    facts["census"] = facts["census"] | {
        "shapes": [[f"({at}, 80)", 400 - at] for at in range(1, 400)],
        "file_bytes": {
            "edges": [10.0 ** (at / 2) for at in range(4, 17)],
            "counts": [0, 0, 3, 120, 900, 4000, 9000, 5000, 900, 75, 2, 0],
        },
        "classes": [["speech", 15_000], ["noise", 5000]],
    }
    facts["bottleneck"] = {
        "who": "input",
        "input_ms": 12.25,
        "step_ms": 4.0,
        "text": "The model waits for input two thirds of the time.",
    }
    facts["pack"] = facts["pack"] | {"break_even_epochs": None}
    return facts


def empty() -> dict[str, Any]:
    """As little as a measurement can hold."""
    facts = measurement(
        path=".", examples=0, bytes_per_example=0.0, total_bytes=0, ways=[], stages=[], batch_sizes=[], notes=[]
    )
    facts["census"] = {
        "files": 0,
        "file_bytes": {"edges": [], "counts": []},
        "shapes": [],
        "dtypes": [],
        "classes": [],
        "components": [],
    }
    facts["pack"] = None
    facts["cold"] = "Cold: not measured here."
    facts["verdict"] = {
        "rule": "none",
        "best": "",
        "headline": "There is nothing to measure.",
        "reasons": [],
        "commands": [],
    }
    return facts


def hostile() -> dict[str, Any]:
    """Every text that comes out of the data is one that breaks careless pages."""
    facts = measurement(path=f"/data/{UNBROKEN}/{SCRIPT}{PICTURE}{CONTROL}")
    facts["census"] = facts["census"] | {
        "shapes": [[name, 50 - at] for at, name in enumerate(HOSTILE)],
        "dtypes": [[name, 50 - at] for at, name in enumerate(HOSTILE)],
        "classes": [[name, 50 - at] for at, name in enumerate(HOSTILE)],
        "components": [{"name": name, "dtype": name, "shape": name} for name in HOSTILE],
    }
    facts["stages"] = [stage(name, 1.0 + at, 30.0 - at, 0.1) for at, name in enumerate(HOSTILE)]
    facts["cold"] = PICTURE
    facts["ways"] = [
        way(name, 1000.0 * (at + 1), 20_000, 4096.0, call=name, note=name) for at, name in enumerate(HOSTILE)
    ]
    facts["bottleneck"] = {"who": "even", "input_ms": 2.0, "step_ms": 2.1, "text": SCRIPT}
    facts["verdict"] = {
        "rule": SCRIPT,
        "best": LONG,
        "headline": f"{SCRIPT} {PICTURE} {LONG}",
        "reasons": HOSTILE,
        "commands": HOSTILE,
    }
    facts["notes"] = HOSTILE
    facts["machine"] = facts["machine"] | {"python": SCRIPT, "tensorflow": UNBROKEN}
    return facts


ALL = {"tiny": measurement, "large": large_array, "varying": varying, "empty": empty, "hostile": hostile}
