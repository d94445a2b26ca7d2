"""Runs the layer in OpenVINO (`pip install openvino numpy`), and compares it with the outputs beside this file."""
import pathlib

import numpy as np
import openvino as ov

here = pathlib.Path(__file__).parent
compiled = ov.Core().compile_model(here / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
inputs = [np.load(here / f"input_{i}.npy") for i in range(len(compiled.inputs))]
outputs = list(compiled(inputs).values())
print("OpenVINO", ov.get_version())
for i, got in enumerate(outputs):
    print(f"output {i}: {got.dtype}{list(got.shape)}")
    for who in ("irrun", "reference"):
        file = here / f"{who}_{i}.npy"
        if file.exists() and got.size:
            difference = np.abs(got.astype(np.float64) - np.load(file).astype(np.float64)).max()
            print(f"  largest difference from {who}: {difference:.3e}")
