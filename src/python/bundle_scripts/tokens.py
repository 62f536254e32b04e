"""The loss of a language model in a file of Python."""

import torch
import torch.nn.functional as F


def loss_of(model, batch):
    output = model(batch["inputs"])
    if getattr(output, "loss", None) is not None:
        return output.loss.float()
    logits = output if isinstance(output, torch.Tensor) else output.logits
    return F.cross_entropy(logits.flatten(0, 1).float(), batch["targets"].flatten())
