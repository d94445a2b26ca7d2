"""What is read out of the rows of raw figures."""
from math import exp, log

SHOWN = {'openvino': 'OpenVINO', 'onnxruntime': 'ONNX Runtime', 'openvino_static': 'OpenVINO, reshaped'}


def ratio(row, peer, of='ms'):
    """Ours divided by a peer's; None where either was not measured."""
    values = row.get(of, {})
    return values['irrun'] / values[peer] if 'irrun' in values and peer in values else None


def geometric(values):
    values = [v for v in values if v is not None]
    return exp(sum(map(log, values)) / len(values)) if values else None


def good(rows):
    return [row for row in rows if 'error' not in row]
