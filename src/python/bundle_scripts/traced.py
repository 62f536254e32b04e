"""A model as an export writes it into model.py, for the checks of own.py; a bundle has the model of the user."""

import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(7, 13)

    def forward(self, x):
        return self.fc(x)


def loss_of(model, batch):
    return F.cross_entropy(model(batch["x"]), batch["y"])
