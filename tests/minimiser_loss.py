"""The population loss of Theorem 4.2's setting by brute force: every string, every step, from the token positions."""

import itertools

import numpy as np
import torch

from theory import MinimiserSetting, grid_positions


class BruteLoss:
    """Loss of decoupled parameters by enumeration, float64, differentiable.

    Parameters: one flat vector in [-M, M], queries [V or 1, d], keys [V, d], values [V].
    """

    def __init__(self, setting: MinimiserSetting) -> None:
        self.setting, self.task = setting, setting.task
        self.vocabulary, self.d = self.task.vocabulary_size, setting.d
        self.queries = 1 if setting.queries == "tied" else self.vocabulary
        self.size = (self.queries + self.vocabulary) * self.d + self.vocabulary
        turns = [float(f.turns()) for f in (*setting.frequencies.row, *setting.frequencies.column)]
        self.angles = 2 * np.pi * torch.tensor(turns, dtype=torch.float64)
        self.rows = len(setting.frequencies.row)
        self.cases = [self._cases(n) for n in range(1, setting.length + 1)]

    def _cases(self, n):
        strings = np.array(list(itertools.product((0, 1), repeat=n)), dtype=np.int64)
        tokens = self.task.sequences(strings)
        rows, columns = grid_positions(tokens, self.task.newline)
        return n, torch.from_numpy(tokens), torch.from_numpy(rows), torch.from_numpy(columns)

    def split(self, theta):
        q, k, v = torch.split(theta, [self.queries * self.d, self.vocabulary * self.d, self.vocabulary])
        return q.reshape(self.queries, -1).expand(self.vocabulary, -1), k.reshape(self.vocabulary, -1), v

    def __call__(self, theta):
        q, k, v = self.split(theta)
        total = torch.zeros((), dtype=torch.float64)
        for n, tokens, rows, columns in self.cases:
            for i in range(1, n + 1):
                at = self.task.query_index(n, i)
                seen = tokens[:, : at + 1]
                query = q[seen[:, -1]].reshape(len(seen), 1, -1, 2)
                key = k[seen].reshape(len(seen), at + 1, -1, 2)
                row = (rows[:, : at + 1] - rows[:, at : at + 1])[..., None] * self.angles[: self.rows]
                column = (columns[:, : at + 1] - columns[:, at : at + 1])[..., None] * self.angles[self.rows :]
                angle = torch.cat([row, column], -1)
                inner = (query * key).sum(-1)
                cross = query[..., 1] * key[..., 0] - query[..., 0] * key[..., 1]
                score = (inner * angle.cos() + cross * angle.sin()).sum(-1)
                output = (torch.softmax(score, -1) * v[seen]).sum(-1)
                sign = 1.0 - 2.0 * tokens[:, self.task.a + i - 1]
                total = total + torch.nn.functional.softplus(-sign * output).mean() / (n * self.setting.length)
        return total

    def value_and_gradient(self, theta):
        point = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        value = self(point)
        value.backward()
        return float(value), point.grad.numpy()
