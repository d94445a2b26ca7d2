"""What is read out of the rows of raw figures."""
from math import exp, log

SHOWN = {'openvino': 'OpenVINO', 'onnxruntime': 'ONNX Runtime', 'openvino_static': 'OpenVINO, reshaped',
         'genai': 'OpenVINO GenAI', 'genai_sdpa': 'OpenVINO GenAI, SDPA'}


def ratio(row, peer, of='ms'):
    """Ours divided by a peer's; None where either was not measured."""
    values = row.get(of, {})
    return values['irrun'] / values[peer] if 'irrun' in values and peer in values else None


def geometric(values):
    values = [v for v in values if v is not None]
    return exp(sum(map(log, values)) / len(values)) if values else None


def good(rows):
    return [row for row in rows if 'error' not in row]


def growths(row, who):
    """How much longer a unit of work takes than at the reference size, for each size from there on."""
    unit = {p['size']: p['ms'][who] / p['units'] for p in row['points']
            if p['size'] >= row['from'] and who in p['ms']}
    return {size: time / unit[row['from']] for size, time in unit.items()} if row['from'] in unit else {}
