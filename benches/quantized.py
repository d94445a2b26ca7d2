"""Models that NNCF has quantized: architectures with random weights, calibrated on random samples."""
import os

import numpy as np
import openvino as ov

from architectures import kept
from common import WORK, guarded
from field import beside_openvino

TIMM = ['resnet50', 'densenet121', 'ghostnet_100', 'vit_tiny_patch16_224', 'convnext_tiny', 'regnety_008']
NAMES = [*TIMM, 'mobilenet_v2', 'yolov8n', 'distilbert']
# NNCF has other patterns for models of attention.
TRANSFORMERS = ['vit_tiny_patch16_224', 'distilbert']
SAMPLES, TOKENS = 4, [1, 128]


def yolo():
    """YOLOv8n with one output, as its package exports it. The package asks no network and keeps its settings here."""
    os.environ.update(YOLO_CONFIG_DIR=str(WORK), YOLO_OFFLINE='true', YOLO_AUTOINSTALL='false')
    from ultralytics import YOLO
    model = YOLO('yolov8n.yaml').model
    model.model[-1].export = True
    return model


def built(name):
    """A model of PyTorch and the shape of its pictures."""
    import timm
    import torchvision
    if name == 'yolov8n':
        return yolo(), [1, 3, 640, 640]
    model = timm.create_model(name) if name in TIMM else torchvision.models.get_model(name, weights=None)
    return model, [1, 3, 224, 224]


def normalized(model, batch):
    """The model with batch normalization by the statistics of a batch. With those of a new model, and with scales that
    are 0 at first, what goes through a deep network vanishes, and ranges of quantization with it."""
    import torch
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1
            torch.nn.init.ones_(module.weight)
    model.train()(batch)
    return model.eval()


def pictures(name):
    """A network of pictures as OpenVINO converts it, and samples of its input."""
    import torch
    model, shape = built(name)
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal(shape, np.float32) for _ in range(SAMPLES)]
    example = torch.from_numpy(np.concatenate(samples))
    model = normalized(model, example)
    model(example[:1])  # the first call makes the anchors of a detector, which a trace must not
    return ov.convert_model(model, example_input=example[:1], input=[shape]), samples


def text():
    """An encoder of text as OpenVINO converts it, and samples of its inputs."""
    import torch
    from transformers import DistilBertConfig, DistilBertModel
    config = DistilBertConfig()
    example = {name: torch.ones(TOKENS, dtype=torch.int64) for name in ('input_ids', 'attention_mask')}
    whole = ov.convert_model(DistilBertModel(config).eval(), example_input=example,
                             input=[(name, TOKENS) for name in example])
    rng, mask = np.random.default_rng(0), np.ones(TOKENS, np.int64)
    return whole, [{'input_ids': rng.integers(0, config.vocab_size, TOKENS), 'attention_mask': mask}
                   for _ in range(SAMPLES)]


def quantized(name):
    """The file of a quantized model."""
    def make():
        import nncf
        whole, samples = text() if name == 'distilbert' else pictures(name)
        kind = nncf.ModelType.TRANSFORMER if name in TRANSFORMERS else None
        return nncf.quantize(whole, nncf.Dataset(samples), subset_size=SAMPLES, model_type=kind)
    return kept(WORK / 'nncf' / f'{name}.xml', make, compress_to_fp16=True)


def nncf(setup):
    """Two threads, beside OpenVINO in f32. Quick, three of them."""
    def compare(name):
        xml = quantized(name)
        return {'ms': beside_openvino(setup, name, xml, ov.Core().read_model(xml), divisor=2)}
    return [guarded(name, lambda: compare(name)) for name in (NAMES[:3] if setup.is_quick else NAMES)]
