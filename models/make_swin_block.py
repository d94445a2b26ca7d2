#!/usr/bin/env python3
"""Makes models/swin_block: one Swin Transformer block with shifted windows, as OpenVINO's converter
writes it, with an input and what OpenVINO computes for it in f32.

Needs `pip install openvino torch torchvision numpy`; irrun itself needs none of them."""
import json
import pathlib

import numpy as np
import openvino as ov
import torch
from torchvision.models.swin_transformer import SwinTransformerBlock

HERE = pathlib.Path(__file__).resolve().parent / "swin_block"


def main():
    torch.manual_seed(7)
    block = SwinTransformerBlock(dim=32, num_heads=2, window_size=[4, 4], shift_size=[2, 2])
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    block.eval()
    example = torch.zeros(1, 16, 16, 32)
    model = ov.convert_model(block, example_input=example, input=[1, 16, 16, 32])
    HERE.mkdir(exist_ok=True)
    ov.save_model(model, HERE / "model.xml", compress_to_fp16=False)

    x = np.random.default_rng(7).standard_normal((1, 16, 16, 32)).astype(np.float32)
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    y = compiled([x])[compiled.outputs[0]]
    np.save(HERE / "input_0.npy", x)
    np.save(HERE / "expected_0.npy", y)
    case = {
        "name": "swin_block",
        "source": "torchvision SwinTransformerBlock(32, 2, [4, 4], [2, 2]), random weights",
        "inputs": [{"type": "f32", "shape": list(x.shape)}],
        "outputs": [{"type": "f32", "shape": list(y.shape), "rtol": 1e-4, "atol": 1e-5}],
    }
    (HERE / "case.json").write_text(json.dumps(case, indent=1) + "\n")


if __name__ == "__main__":
    main()
